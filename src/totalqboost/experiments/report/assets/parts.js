"use strict";
// Parts of pages: elements, numbers, and the table of an ensemble's learners.
const element = (name, text = "", attributes = {}) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.textContent = text;
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

const table = (ensemble) => {
  const made = element("table"), heaviest = Math.max(...ensemble.learners.map((l) => l[3]));
  const n = ensemble.learners.length;
  made.append(element("caption", `${n} learner${n === 1 ? "" : "s"}, heaviest first` +
    (ensemble.intercept ? `, intercept ${number(ensemble.intercept, 4)}` : "")));
  const head = element("thead");
  head.append(row(["Feature", `Votes ${ensemble.classes[1]} if`, right("Threshold", "th"), right("Weight", "th"), ""], "th"));
  all("th", head).forEach((cell) => { cell.scope = "col"; });
  const body = element("tbody");
  for (const [feature, direction, threshold, weight] of ensemble.learners) {
    const name = element("th", feature, { scope: "row" }), bar = element("td", "", { className: "bar" });
    bar.append(element("i"));
    bar.firstChild.style.width = `${100 * weight / heaviest}%`;
    const words = { ">": "above", "≤": "at most" }[direction] ?? direction;
    body.append(row([name, element("td", words, { className: "whole" }), right(threshold === null ? "" : number(threshold, 6)), right(weight.toPrecision(4)), bar]));
  }
  made.append(head, body);
  return made;
};

// A step function from the least to the largest value; x in step with the thresholds.
const steps = (shape) => {
  const { x, y, deciles } = shape, margin = 0.25 * (x.at(-1) - x[0]) || Math.abs(x[0]) * 0.5 || 1;
  const low = Math.min(x[0] - (deciles.length ? 0 : margin), ...deciles);
  const high = Math.max(x.at(-1) + (deciles.length ? 0 : margin), ...deciles);
  return { x: [low, ...x, high], y: [...y, y.at(-1)] };
};
