(() => {
  // Charts of error and log loss by size; the size that is pointed at opens its ensemble.
  const page = JSON.parse(document.getElementById("data").textContent);
  const sizes = page.sizes;
  const slider = document.getElementById("size");
  let pinned = page.chosen; // what a click, a key or the slider chose; pointing is for the moment

  const svg = (name, attributes = {}, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };
  const known = (value) => value !== null && value !== undefined;
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const counted = (n) => `${n} weak classifier${n === 1 ? "" : "s"}`;

  // -- charts --------------------------------------------------------------------------------

  const ticks = (low, high, wanted) => {
    const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
  };

  const short = (v, step) => `${+v.toFixed(Math.max(0, 1 - Math.floor(Math.log10(step))))}`;

  const LEFT = 48, RIGHT = 14, TOP = 14, BOTTOM = 36;
  const charts = [
    { node: document.getElementById("error"), of: (s) => s.error, se: (s) => s.error_se, training: (s) => s.train_error, tick: (v, step) => `${short(100 * v, 100 * step)} %`, say: percent },
    { node: document.getElementById("loss"), of: (s) => s.log_loss, se: (s) => s.log_loss_se, training: (s) => s.train_log_loss, tick: short, say: (v) => v.toFixed(3) },
  ];

  const draw = (chart) => {
    const width = chart.node.clientWidth, height = chart.node.clientHeight;
    const measured = sizes.map((s, i) => ({ i, n: s.n, y: chart.of(s), se: chart.se(s) ?? 0 })).filter((p) => known(p.y));
    const training = sizes.map((s, i) => ({ i, n: s.n, y: chart.training(s) })).filter((p) => known(p.y));
    const values = [...measured.flatMap((p) => [p.y - p.se, p.y + p.se]), ...training.map((p) => p.y)];
    let low = Math.min(...values), high = Math.max(...values);
    const margin = 0.06 * (high - low || high || 1);
    low = Math.max(0, low - margin); high += margin;
    const last = Math.max(1, sizes.at(-1).n);
    chart.x = (n) => LEFT + (width - LEFT - RIGHT) * n / last;
    chart.y = (v) => TOP + (height - TOP - BOTTOM) * (high - v) / (high - low);
    chart.shown = measured.length ? measured : training;
    const path = (points) => points.map((p, k) => `${k ? "L" : "M"}${chart.x(p.n).toFixed(1)} ${chart.y(p.y).toFixed(1)}`).join("");

    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const marks = ticks(low, high, 6), step = marks[1] - marks[0];
    for (const v of marks) {
      root.append(svg("line", { class: "gridline", x1: LEFT, x2: width - RIGHT, y1: chart.y(v), y2: chart.y(v) }),
        svg("text", { x: LEFT - 8, y: chart.y(v) + 4, "text-anchor": "end" }, chart.tick(v, step)));
    }
    root.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }));
    for (const n of ticks(0, last, Math.min(last, width / 70)).filter(Number.isInteger)) {
      root.append(svg("text", { x: chart.x(n), y: height - BOTTOM + 16, "text-anchor": "middle" }, `${n}`));
    }
    root.append(svg("text", { x: (LEFT + width - RIGHT) / 2, y: height - 4, "text-anchor": "middle" }, "weak classifiers"));
    if (measured.some((p) => p.se > 0)) {
      const edge = (sign) => measured.map((p) => ({ n: p.n, y: p.y + sign * p.se }));
      root.append(svg("path", { class: "band", d: `${path(edge(1))}${path(edge(-1).reverse()).replace("M", "L")}Z` }));
    }
    root.append(svg("path", { class: measured.length ? "training" : "line", d: path(training) }));
    root.append(svg("path", { class: "line", d: path(measured) }));
    const radius = width / chart.shown.length > 9 ? 3 : 2;
    root.append(...chart.shown.map((p) => svg("circle", { class: "dot", cx: chart.x(p.n), cy: chart.y(p.y), r: radius })));
    const best = chart.shown.find((p) => p.i === page.chosen);
    if (best) root.append(svg("circle", { class: "chosen", cx: chart.x(best.n), cy: chart.y(best.y), r: 8 }));
    chart.mark = svg("g");
    root.append(chart.mark);
    chart.node.replaceChildren(root);
    point(chart, current);
  };

  const point = (chart, index) => {
    const found = chart.shown.find((p) => p.i === index), width = chart.node.clientWidth;
    if (!found) return chart.mark.replaceChildren();
    const x = chart.x(found.n), y = chart.y(found.y), before = x > width - 130;
    const text = `${sizes[index].n}: ${chart.say(found.y)}${found.se ? ` ± ${chart.say(found.se).replace(" %", "")}` : ""}`;
    const up = y > TOP + 34 ? -14 : 24;
    chart.mark.replaceChildren(
      svg("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: chart.node.clientHeight - BOTTOM }),
      svg("circle", { class: "here", cx: x, cy: y, r: 4.5 }),
      svg("text", { class: "value", x: before ? x - 10 : x + 10, y: y + up, "text-anchor": before ? "end" : "start" }, text),
    );
  };

  // -- the ensemble --------------------------------------------------------------------------

  const shapeOf = (shape, ensemble, least, most, width) => {
    const height = 120, isTwo = ensemble.classes.length === 2;
    const y = (v) => 6 + 84 * (most - v) / (most - least || 1);
    const shade = (c, what) => isTwo ? {} : { style: `${what}: ${hue(c)}` };
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told(shape, ensemble.classes) });
    root.append(svg("line", { class: "zero", x1: 40, x2: width - 8, y1: y(0), y2: y(0) }));
    for (const v of new Set([least, 0, most])) root.append(svg("text", { x: 35, y: y(v) + 4, "text-anchor": "end" }, number(v, 2)));
    root.append(...(shape.categories ? bars : curves)(shape, y, shade, width));
    return root;
  };

  const curves = (shape, y, shade, width) => {
    const lines = shape.curves.map((own) => steps(shape, own)), low = lines[0].x[0], high = lines[0].x.at(-1);
    const end = width - (shape.missing ? 24 : 8), x = (v) => 40 + (end - 40) * (v - low) / (high - low || 1);
    const path = (line) => line.x.slice(0, -1).map((v, k) => `${k ? `V${y(line.y[k]).toFixed(1)}` : `M${x(v).toFixed(1)} ${y(line.y[k]).toFixed(1)}`}H${x(line.x[k + 1]).toFixed(1)}`).join("");
    const made = lines.map((line, c) => svg("path", { class: "step", d: path(line), ...shade(c, "stroke") }));
    (shape.missing ?? []).forEach((v, c) => {
      const mark = svg("circle", { class: "gap", cx: width - 12, cy: y(v), r: 4, ...shade(c, "fill") });
      mark.append(svg("title", {}, `missing: ${number(v)}`));
      made.push(mark);
    });
    made.push(...shape.deciles.map((v) => svg("line", { class: "decile", x1: x(v), x2: x(v), y1: 96, y2: 101 })));
    made.push(svg("text", { x: 40, y: 116 }, number(low, 4)), svg("text", { x: end, y: 116, "text-anchor": "end" }, number(high, 4)));
    return made;
  };

  const bars = (shape, y, shade, width) => {
    const n = shape.categories.length, place = (width - 48) / n, thick = 0.8 * place / shape.curves.length, made = [];
    shape.curves.forEach((own, c) => own.forEach((v, k) => {
      const x = 40 + k * place + 0.1 * place + c * thick;
      const bar = svg("rect", { class: "level", x, y: Math.min(y(v), y(0)), width: thick, height: Math.max(Math.abs(y(v) - y(0)), 0.5), ...shade(c, "fill") });
      bar.append(svg("title", {}, `${shape.categories[k]}: ${number(v)}`));
      made.push(bar);
    }));
    const room = Math.max(1, Math.floor(place / 7));  // letters
    if (place >= 14) made.push(...shape.categories.map((label, k) => svg("text", { x: 40 + (k + 0.5) * place, y: 112, "text-anchor": "middle" },
      label.length > room ? `${label.slice(0, Math.max(1, room - 1))}…` : label)));
    return made;
  };

  const showShapes = (ensemble) => {
    const root = document.querySelector(".shapes");
    if (!ensemble.shapes.length) return root.replaceChildren();
    const values = ensemble.shapes.flatMap(heights);
    const least = Math.min(0, ...values), most = Math.max(0, ...values);
    const gaps = ensemble.shapes.some((shape) => shape.missing) ? " Dots at the right: missing values." : "";
    root.replaceChildren(element("p", `What each feature adds to the score, by its value. Ticks at the foot: deciles of the training rows.${gaps}`));
    if (ensemble.classes.length > 2) root.append(key(ensemble));
    const figures = ensemble.shapes.map((shape) => {
      const figure = element("figure");
      figure.append(element("figcaption", shape.feature), element("div", "", { className: "shape" }));
      return figure;
    });
    root.append(...figures);
    figures.forEach((figure, k) => {
      const box = figure.querySelector(".shape");
      box.append(shapeOf(ensemble.shapes[k], ensemble, least, most, Math.max(120, box.clientWidth)));
    });
  };

  const winner = ({ classes, intercept }) =>
    classes[classes.length > 2 ? intercept.indexOf(Math.max(...intercept)) : Number(intercept > 0)];

  const fact = (words, value) => {
    const made = element("span", `${words} `);
    made.append(element("b", value));
    return made;
  };
  const facts = (s) => {
    const pm = (value, se, say) => `${say(value)}${se ? ` ± ${say(se).replace(" %", "")}` : ""}`;
    const plain = (v) => v.toFixed(3);
    return [
      known(s.error) && fact("error", pm(s.error, s.error_se, percent)),
      known(s.log_loss) && fact("log loss", pm(s.log_loss, s.log_loss_se, plain)),
      known(s.auc) && fact("AUC", pm(s.auc, s.auc_se, plain)),
      fact("training error", percent(s.train_error)),
      known(s.penalty) && fact("last learner worth", number(s.penalty, 2)),
    ].filter(Boolean);
  };

  let current = -1;
  const show = (index) => {
    if (index === current) return;
    current = index;
    const s = sizes[index];
    charts.forEach((chart) => chart.mark && point(chart, index));
    slider.value = `${index}`;
    slider.setAttribute("aria-valuetext", `${counted(s.n)}${known(s.error) ? `, error ${percent(s.error)}` : ""}`);
    document.getElementById("number").textContent = `${s.n}`;
    document.getElementById("ensemble-title").textContent = counted(s.n) + (index === page.chosen ? ", the chosen size" : "");
    document.getElementById("reading").replaceChildren(...facts(s));
    const learners = document.querySelector(".learners");
    if (s.n) learners.replaceChildren(table(s.ensemble));
    else learners.replaceChildren(element("p", `No question is asked: the answer is always ${winner(s.ensemble)}.`));
    showShapes(s.ensemble);
    const take = document.getElementById("take");
    take.hidden = !s.command;
    const command = element("code"); // no line ends inside an option
    command.append(...s.command.split(/ (?=--)/).flatMap((part) => [element("span", part), " "]));
    take.replaceChildren("To save this ensemble: ", command);
    document.getElementById("back").disabled = index === page.chosen;
  };
  const pin = (index) => { pinned = Math.min(Math.max(index, 0), sizes.length - 1); show(pinned); };

  // -- pointer, keys, slider -----------------------------------------------------------------

  for (const chart of charts) {
    const nearest = (event) => {
      const x = event.clientX - chart.node.getBoundingClientRect().left;
      return chart.shown.reduce((a, b) => Math.abs(chart.x(b.n) - x) < Math.abs(chart.x(a.n) - x) ? b : a).i;
    };
    chart.node.addEventListener("pointermove", (event) => event.pointerType === "mouse" && show(nearest(event)));
    chart.node.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(pinned));
    chart.node.addEventListener("click", (event) => pin(nearest(event)));
    chart.node.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -Infinity, End: Infinity };
      if (!(event.key in moves)) return;
      event.preventDefault();
      pin(pinned + moves[event.key]);
    });
  }
  slider.max = `${sizes.length - 1}`;
  slider.addEventListener("input", () => pin(Number(slider.value)));
  document.getElementById("back").addEventListener("click", () => { pin(page.chosen); slider.focus(); });

  const shownCharts = charts.filter((chart) => sizes.some((s) => known(chart.of(s)) || known(chart.training(s))));
  charts.filter((chart) => !shownCharts.includes(chart)).forEach((chart) => { chart.node.closest("figure").hidden = true; });
  charts.splice(0, charts.length, ...shownCharts);
  const redraw = () => { charts.forEach(draw); showShapes(sizes[current].ensemble); };
  show(pinned);
  charts.forEach(draw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  document.documentElement.dataset.ready = "yes";
})();
