"use strict";
// The charts of the page: what is checked and chosen is drawn; points and ensembles open.
(async () => {
  const unpack = async (id) => {
    const letters = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  let page;
  try {
    document.head.append(element("script", await unpack("plotly")));
    page = JSON.parse(await unpack("data"));
  } catch (error) {
    const failure = document.getElementById("failure");
    failure.textContent = "This browser cannot unpack the charts; one of the last years can.";
    failure.hidden = false;
    return;
  }

  // -- look ----------------------------------------------------------------------------------

  const coarse = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  let printing = false; // paper is light and narrow, whatever the screen
  const size = (width, height) => (printing ? { width, height } : { autosize: true });

  const axis = (more) => ({
    gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false, automargin: false,
    fixedrange: coarse, ...more,
  });
  const look = (more) => ({
    showlegend: false, hovermode: "closest", hoverdistance: 24, dragmode: coarse ? false : "zoom",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 11, color: colour("soft") },
    hoverlabel: {
      bgcolor: colour("raised"), bordercolor: colour("soft"), align: "left",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    },
    ...more,
  });

  // -- the figure ----------------------------------------------------------------------------

  const sized = (n) => `<b>${n} learner${n === 1 ? "" : "s"}</b>`;

  const describe = (panel, i) => {
    const rows = panel.rows, strategy = page.strategies[rows.strategy[i]];
    const n_valid = panel.n_valid[rows.split[i]], wrong = rows.wrong[i];
    let how = strategy;
    if (["C", "D", "D0", "E"].includes(strategy)) how += `, λ = ${number(rows.penalty[i])}`;
    else if (strategy === "A") how += `, ν = ${number(rows.penalty[i])}`;
    else if (rows.round[i] !== null) how += `, round ${rows.round[i]}`;
    return `${sized(rows.n[i])}, error ${(100 * wrong / n_valid).toFixed(2)} %<br>` +
      `${wrong} of ${n_valid} wrong, training ${rows.train[i].toFixed(2)} %<br>` +
      `risk ${number(rows.risk[i], 4)}<br>strategy ${how}, split ${rows.split[i]}` +
      (rows.ensemble[i] === null ? "" : "<br><i>click or Enter: open it</i>");
  };

  // Points of a series: sizes, errors, labels, positions of the Pareto-efficient ones.
  const ofRows = (panel, indices, frontier) => ({
    x: indices.map((i) => panel.rows.n[i]),
    y: indices.map((i) => 100 * panel.rows.wrong[i] / panel.n_valid[panel.rows.split[i]]),
    text: indices.map((i) => describe(panel, i)),
    ensemble: indices.map((i) => panel.rows.ensemble[i]),
    frontier,
  });
  // An ensemble of the size and the group that was kept, to read behind a mean.
  const keptOf = (panel, key, n) => panel.ensembles
    .find((kept) => kept.n === n && page.groups[key].includes(kept.strategy))?.index ?? null;
  const ofMeans = (panel, key, name) => {
    const means = panel.means[key], ensemble = means.n.map((n) => keptOf(panel, key, n));
    const [se, splits] = [1, 2].map((place) => means.n.map((n) => panel.by_size[key][n][place]));
    return {
      x: means.n, y: means.error, se, frontier: means.frontier, ensemble,
      text: means.n.map((n, i) => `${sized(n)}, error ${means.error[i].toFixed(2)} ± ${se[i].toFixed(2)} %<br>` +
        `mean of ${splits[i]} splits<br>${name}` +
        (ensemble[i] === null ? "" : `<br><i>click or Enter: open one of split ${panel.ensembles[ensemble[i]].split}</i>`)),
    };
  };
  const ofPaper = (paper, name) => ({
    x: paper.n, y: paper.error, frontier: paper.frontier,
    text: paper.n.map((n, i) => `${sized(n)}, error ${paper.error[i].toFixed(2)} %<br>the paper, ${name}`),
  });
  const GROUPS = { convex: "convex (A, B)", cp: "cardinality-penalized (C, D, E)" };

  const points = (panel, series, view) => {
    const { key, kind } = series, name = GROUPS[key.replace("paper-", "")] ?? `strategy ${key}`;
    if (kind === "paper") {
      const paper = panel.paper[key.replace("paper-", "")];
      return paper ? ofPaper(paper, name) : null;
    }
    if (view === "mean") return panel.means[key] ? ofMeans(panel, key, name) : null;
    if (kind === "group") {
      const group = panel.groups[view]?.[key];
      return group ? ofRows(panel, group.rows, group.frontier) : null;
    }
    const wanted = page.strategies.indexOf(key), rows = panel.rows;
    const mine = [...rows.n.keys()].filter((i) => rows.strategy[i] === wanted && String(rows.split[i]) === view);
    return ofRows(panel, mine, null);
  };

  // One standard error up and down, as a shade: whiskers would cross the points of the others.
  // Each size has its own box, so that sizes without a mean stay blank.
  const shadeOf = (found, series, shade) => ({
    x: found.x.flatMap((n) => [n - 0.5, n + 0.5, n + 0.5, n - 0.5, null]),
    y: found.y.flatMap((y, i) => [y - found.se[i], y - found.se[i], y + found.se[i], y + found.se[i], null]),
    mode: "lines", fill: "toself", fillcolor: `${shade}26`, line: { width: 0 }, hoverinfo: "skip", name: `${series.key} shade`,
  });

  // Shades lie under lines, lines under points.
  const traces = (panel, shown, view) => page.series.filter((s) => shown.has(s.key)).flatMap((series) => {
    const found = points(panel, series, view);
    if (!found?.x.length) return [];
    const shade = colour(`s-${series.key}`), paper = series.kind === "paper";
    const size = (paper ? 4.5 : 6) - (found.x.length > 40 ? 1.5 : 0);
    const made = [[2, {
      x: found.x, y: found.y, text: found.text, customdata: found.ensemble, name: series.key,
      mode: "markers", cliponaxis: false, hovertemplate: "%{text}<extra></extra>",
      marker: { symbol: series.symbol, size, color: shade, opacity: 0.9, line: { width: paper ? 1 : 0, color: shade } },
    }]];
    if (found.se) made.push([0, shadeOf(found, series, shade)]);
    if (found.frontier && series.kind !== "strategy") made.push([1, {
      x: found.frontier.map((i) => found.x[i]), y: found.frontier.map((i) => found.y[i]),
      mode: "lines", hoverinfo: "skip", name: `${series.key} frontier`,
      line: { shape: "hv", color: shade, width: paper ? 1 : 1.6, dash: paper ? "dot" : "solid" },
    }]);
    return made.map(([layer, trace]) => [layer - (paper ? 0.5 : 0), trace]);
  }).sort(([a], [b]) => a - b).map(([, trace]) => trace);

  const charts = all(".chart");
  const form = document.querySelector(".controls"), strip = document.querySelector(".grid");
  const split = document.getElementById("split"), isMany = split.value === "mean";
  const scale = document.getElementById("scale");
  const panelOf = (node) => page.panels[Number(node.dataset.panel)];

  // How many validation rows: of the split that is drawn, or of all. Where no size has a mean it is said.
  const captions = all(".panel .rows").map((caption) => [caption, caption.textContent]);
  const caption = () => captions.forEach(([node, text]) => {
    const panel = panelOf(node.closest(".panel")), n_valid = panel.n_valid[split.value];
    const isBlank = split.value === "mean" && !Object.keys(panel.means).length;
    node.textContent = isBlank ? "too few splits for a mean" : n_valid === undefined ? text : `${n_valid} validation rows`;
  });

  // Plotly would leave the zeros of 20 and 50 out, and label halves.
  const LOGARITHMIC = { type: "log", tickvals: [0, 1, 2, 3].flatMap((zeros) => [1, 2, 5].map((n) => n * 10 ** zeros)) };

  const draw = () => {
    caption();
    const shown = new Set(all("input:checked", form).map((box) => box.value));
    const calls = charts.map((chart) => Plotly.react(chart, traces(panelOf(chart), shown, split.value), look({
      margin: { l: 42, r: 8, t: 6, b: 36 },
      ...size(328, 215),
      uirevision: `${chart.dataset.panel} ${scale.value}`,
      xaxis: axis({ title: { text: "learners", standoff: 6 }, rangemode: "tozero", ...(scale.value === "log" ? LOGARITHMIC : {}) }),
      yaxis: axis({ ticksuffix: " %", nticks: 6, rangemode: "nonnegative" }),
    }), config));
    return Promise.all(calls);
  };
  form.addEventListener("change", draw);
  split.addEventListener("change", () => {
    const index = Number(set?.value), own = page.panels[index]?.ensembles.find((e) => String(e.split) === split.value);
    if (kept && own) choose(index, own.index);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  await draw();

  // Where charts are swiped: which one is on the screen.
  const counter = document.querySelector(".swipe");
  if (counter) strip.addEventListener("scroll", () => {
    const n = charts.length, end = strip.scrollWidth - strip.clientWidth;
    const at = 1 + Math.round((n - 1) * strip.scrollLeft / (end || 1));
    counter.textContent = `${at} of ${n}, ${at < n ? "swipe →" : "← swipe"}`;
  }, { passive: true });

  // -- points by mouse and by keyboard -------------------------------------------------------

  const reading = document.getElementById("reading");
  const plain = (label) => label.replaceAll("<br>", "; ").replace(/<[^>]*>/g, "");

  const open = (chart, ensemble) => {
    if (ensemble === undefined || ensemble === null) return;
    choose(Number(chart.dataset.panel), ensemble);
    reader.scrollIntoView({ block: "nearest" });
    kept.focus({ preventScroll: true });
  };

  for (const chart of charts) {
    let place = -1;
    const walk = () => chart.data.flatMap((trace, curveNumber) => trace.mode !== "markers" ? [] :
      trace.x.map((x, pointNumber) => ({ x, y: trace.y[pointNumber], curveNumber, pointNumber })))
      .sort((a, b) => a.x - b.x || a.curveNumber - b.curveNumber || a.y - b.y);
    const leave = () => { place = -1; Plotly.Fx.unhover(chart); };

    if (!coarse) chart.on("plotly_click", (event) => open(chart, event.points[0].customdata));
    chart.addEventListener("blur", leave);
    chart.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
      const stops = walk();
      if (event.key === "Escape") return leave();
      if (event.key === "Enter" && stops[place]) {
        const { curveNumber, pointNumber } = stops[place];
        return open(chart, chart.data[curveNumber].customdata?.[pointNumber]);
      }
      if (!(event.key in steps) || !stops.length) return;
      event.preventDefault();
      place = Math.min(Math.max(place + steps[event.key], 0), stops.length - 1);
      const { curveNumber, pointNumber } = stops[place];
      Plotly.Fx.hover(chart, [{ curveNumber, pointNumber }]);
      reading.textContent = plain(chart.data[curveNumber].text[pointNumber]);
    });
  }

  // -- ensembles -----------------------------------------------------------------------------

  const drawShapes = (root, ensemble, own, most_shapes) => {
    const values = ensemble.shapes.flatMap(heights), isTwo = ensemble.classes.length === 2;
    const least = Math.min(0, ...values), most = Math.max(0, ...values), margin = 0.12 * (most - least || 1);
    const figures = ensemble.shapes.slice(0, most_shapes).map((shape) => {
      const figure = element("figure"), chart = element("div", "", { className: "shape" });
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", told(shape, ensemble.classes));
      figure.append(named("figcaption", shape.feature), chart);
      return [figure, chart, shape];
    });
    root.replaceChildren(element("p", "What each feature adds to the score, by its value; ticks: deciles of its values. " +
      `Constant ${ensemble.constant.map((value) => number(value, 4)).join(", ")}.`), ...(isTwo ? [] : [key(ensemble)]),
    ...figures.map(([figure]) => figure));
    for (const [, chart, shape] of figures) {
      const shade = (c) => isTwo ? colour(own) : hue(c);
      const traces = shape.categories ? bars(shape, shade) : curves(shape, shade, least - margin);
      Plotly.newPlot(chart, traces, look({
        margin: { l: 38, r: 8, t: 4, b: 24 },
        ...size(210, 130),
        xaxis: axis({ nticks: 5, showgrid: false, ...(shape.categories ? { type: "category" } : {}) }),
        yaxis: axis({ range: [least - margin, most + margin], nticks: 5 }),
      }), config);
    }
  };

  const bars = (shape, shade) => shape.curves.map((y, c) => (
    { type: "bar", x: shape.categories, y, marker: { color: shade(c) }, hovertemplate: `%{x}: %{y:.3~g}<extra></extra>` }));

  const curves = (shape, shade, foot) => {
    const lines = shape.curves.map((y) => steps(shape, y)), ends = [lines[0].x[0], lines[0].x.at(-1)];
    return [
      { x: ends, y: [0, 0], mode: "lines", hoverinfo: "skip", line: { color: colour("soft"), width: 0.8 } },
      ...lines.map((line, c) => (
        { x: line.x, y: line.y, mode: "lines", line: { shape: "hv", color: shade(c), width: 2 }, hovertemplate: `from %{x:.4~g}: %{y:.3~g}<extra></extra>` })),
      ...(shape.missing ?? []).map((value, c) => (
        { x: [ends[1] + 0.06 * (ends[1] - ends[0])], y: [value], mode: "markers", marker: { symbol: "diamond", size: 8, color: shade(c) }, hovertemplate: "missing: %{y:.3~g}<extra></extra>" })),
      { x: shape.deciles, y: shape.deciles.map(() => foot), mode: "markers", hoverinfo: "skip", cliponaxis: false,
        marker: { symbol: "line-ns", size: 6, line: { width: 1, color: colour("soft") } } },
    ];
  };

  const reader = document.getElementById("ensembles");
  const set = document.getElementById("set"), kept = document.getElementById("kept");
  const LEARNERS = 12, SHAPES = 6; // the lightest of more are shown on demand

  // The group that a strategy belongs to, else the strategy itself: the key of its series.
  const seriesOf = (strategy) => Object.keys(page.groups).find((key) => page.groups[key].includes(strategy));
  // An ensemble is offered because its error is low: beside it stands one that was not chosen so.
  const unchosen = (panel, ensemble) => {
    const [error, doubt, n] = panel.by_size[seriesOf(ensemble.strategy)][ensemble.n];
    return "Chosen on these very rows; " + (doubt === null ? "no other split has this size." :
      `mean over ${n} splits at this size: ${error.toFixed(1)} ± ${doubt.toFixed(1)} %.`);
  };

  // Fill the list of a data set, choose one of its ensembles and show it.
  const choose = (index, ensemble) => {
    const { ensembles } = page.panels[index];
    const splits = [...new Set(ensembles.map((e) => e.split))];
    set.value = String(index);
    kept.replaceChildren(...splits.map((split) => {
      const group = element("optgroup", "", { label: `split ${split}` });
      group.append(...ensembles.filter((e) => e.split === split).map((e) => element("option", e.title, { value: e.index })));
      return group;
    }));
    kept.value = String(ensemble ?? page.panels[index].chosen);
    show();
  };
  const show = (whole = false) => {
    const panel = page.panels[Number(set.value)], ensemble = panel.ensembles[Number(kept.value)];
    const { classes, learners, shapes } = ensemble, button = reader.querySelector(".all");
    const isShort = !whole && (learners.length > LEARNERS || shapes.length > SHAPES);
    all(".said b", reader).forEach((word, i) => { word.textContent = classes[1 - i]; });
    reader.querySelector(".learners").replaceChildren(table(ensemble));
    if (isMany) reader.querySelector(".chosen").textContent = unchosen(panel, ensemble);
    button.textContent = `All ${learners.length} learners, ${shapes.length} features`;
    button.hidden = !isShort;
    reader.classList.toggle("short", isShort);
    all(".panel").forEach((panel) => panel.classList.toggle("read", panel.dataset.panel === set.value));
    const own = `s-${seriesOf(ensemble.strategy)}`;
    reader.style.setProperty("--own", `var(--${own})`);
    drawShapes(reader.querySelector(".shapes"), ensemble, own, isShort ? SHAPES : Infinity);
  };
  const swipe = () => {
    const panel = strip.children[Number(set.value)];
    strip.scrollTo({ left: panel.offsetLeft - (strip.clientWidth - panel.clientWidth) / 2 });
  };
  if (kept) {
    set.addEventListener("change", () => { choose(Number(set.value)); swipe(); });
    kept.addEventListener("change", () => show());
    reader.querySelector(".all").addEventListener("click", () => show(true));
    all(".panel .name").forEach((name) => name.addEventListener("click", () => {
      choose(Number(name.closest(".panel").dataset.panel));
      reader.scrollIntoView({ block: "nearest" });
    }));
    // Beside many charts there is room for more words.
    reader.querySelector(".which").open = charts.length > 6 && matchMedia("(min-width: 62.01rem)").matches;
    choose(page.first);
    // Where it stays beside the charts, a tall one stays with its foot on the screen.
    const stay = () => { reader.style.top = `${Math.min(0, innerHeight - reader.offsetHeight)}px`; };
    new ResizeObserver(stay).observe(reader);
    addEventListener("resize", stay);
  }

  // -- dark, light and paper -----------------------------------------------------------------

  const redraw = () => { draw(); if (kept) show(); };
  const print = (begins) => () => {
    printing = begins;
    document.documentElement.classList.toggle("printing", begins);
    redraw();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.documentElement.dataset.ready = "yes";
})();
