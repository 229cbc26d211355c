"use strict";
// Parts of pages: elements, numbers, and the table of an ensemble's learners.
const element = (name, text = "", attributes = {}) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.textContent = text;
  return made;
};
// An element with a name of the user's, which may break after its underscores.
const named = (tag, name, attributes = {}) => {
  const made = element(tag, "", attributes);
  made.append(...name.split(/(?<=_)/).flatMap((part, i) => (i ? [element("wbr"), part] : [part])));
  return made;
};
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

const number = (value, digits = 3) => Number(value)
  .toLocaleString("en", { maximumSignificantDigits: digits, useGrouping: false }).replace("-", "−");

const row = (cells, tag = "td") => {
  const made = element("tr");
  made.append(...cells.map((cell) => cell instanceof Node ? cell : element(tag, cell)));
  return made;
};
const right = (text, tag = "td") => element(tag, text, { className: "num" });

const WORDS = { ">": "above", "≤": "at most" };

const caption = (ensemble) => {
  const n = ensemble.learners.length;
  const made = ensemble.made ? ` of ${ensemble.made}` : ""; // a list cuts long lines
  return `${n} learner${n === 1 ? "" : "s"}${made}, heaviest first`;
};

const table = (ensemble) => ensemble.classes.length > 2 ? tableOfClasses(ensemble) : tableOfTwo(ensemble);

const filled = (ensemble, text, head, lines) => {
  const made = element("table"), top = element("thead"), body = element("tbody");
  made.append(element("caption", text));
  top.append(row(head, "th"));
  all("th", top).forEach((cell) => { cell.scope = "col"; });
  body.append(...lines);
  made.append(top, body);
  return made;
};

const tableOfTwo = (ensemble) => {
  const heaviest = Math.max(...ensemble.learners.map((l) => l[3]));
  const text = caption(ensemble) + (ensemble.intercept ? `, intercept ${number(ensemble.intercept, 4)}` : "");
  const head = ["Feature", `Votes ${ensemble.classes[1]} if`, right("Threshold", "th"), right("Weight", "th"), ""];
  return filled(ensemble, text, head, ensemble.learners.map(([feature, direction, threshold, weight]) => {
    const name = named("th", feature, { scope: "row" }), bar = element("td", "", { className: "bar" });
    bar.append(element("i"));
    bar.firstChild.style.width = `${100 * weight / heaviest}%`;
    const words = element("td", WORDS[direction] ?? direction, { className: "whole" });
    return row([name, words, right(threshold === null ? "" : number(threshold, 6)), right(weight.toPrecision(4)), bar]);
  }));
};

// Of more than two classes each has a column of weights.
const tableOfClasses = (ensemble) => {
  const head = ["Feature", "If, else minus", ...ensemble.classes.map((label) => right(label, "th"))];
  const line = (what, when, weights) => row([named("th", what, { scope: "row" }),
    element("td", when, { className: "whole" }), ...weights.map((weight) => right(number(weight, 3)))]);
  return filled(ensemble, caption(ensemble), head, [
    line("Intercept", "", ensemble.intercept),
    ...ensemble.learners.map(([feature, direction, threshold, weights]) =>
      line(feature, `${WORDS[direction] ?? direction}${threshold === null ? "" : ` ${number(threshold, 6)}`}`, weights)),
  ]);
};

// A step function from the least to the largest value; x in step with the thresholds. No cuts: only
// missing values matter.
const steps = (shape, y) => {
  const { deciles } = shape, x = shape.x.length ? shape.x : [deciles.at(-1) ?? 0];
  const levels = shape.x.length ? y : [y[0], y[0]];
  const margin = 0.25 * (x.at(-1) - x[0]) || Math.abs(x[0]) * 0.5 || 1;
  const low = Math.min(x[0] - (deciles.length ? 0 : margin), ...deciles);
  const high = Math.max(x.at(-1) + (deciles.length ? 0 : margin), ...deciles);
  return { x: [low, ...x, high], y: [...levels, levels.at(-1)] };
};

// Heights of all curves of a shape, that of missing values too.
const heights = (shape) => [...shape.curves.flat(), ...(shape.missing ?? [])];

// The shape in words, for those who do not see it.
const told = (shape, classes) => `Shape function of ${shape.feature}: ` + shape.curves.map((y, c) => {
  const place = (k) => shape.categories ? ` ${shape.categories[k]}` :
    !shape.x.length ? "" : k < shape.x.length ? ` up to ${number(shape.x[k], 4)}` : " above";
  const parts = y.map((value, k) => `${number(value)}${place(k)}`);
  if (shape.missing) parts.push(`${number(shape.missing[c])} missing`);
  return (shape.curves.length > 1 ? `${classes[c]}: ` : "") + parts.join(", ");
}).join("; ");

// Colours of classes, good on light and on dark; the first is that of the only curve of two classes.
const HUES = ["#3b7dd8", "#e07b29", "#2f9e62", "#d1495b", "#8f6bd1", "#9a6b4f", "#d46fb0", "#7f8790", "#a7a52b", "#27a9b8"];
const hue = (c) => HUES[c % HUES.length];
const key = (ensemble) => {
  const made = element("p", "Curves: ");
  made.append(...ensemble.classes.flatMap((label, c) => {
    const name = element("b", label);
    name.style.color = hue(c);
    return c ? [", ", name] : [name];
  }));
  return made;
};
