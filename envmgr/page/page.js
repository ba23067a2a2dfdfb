"use strict";
// Search over what the page already has, and what `status.json` beside it says. All text goes in as text, never as HTML.
const query = document.getElementById("query");
const count = document.getElementById("count");
const texts = (of, selector) => [...of.querySelectorAll(selector)].map((each) => each.textContent.trim());
const all = [...document.querySelectorAll(".software")].map((details) => ({
  details,
  summary: details.querySelector("summary"),
  entries: [...details.querySelectorAll("article")].map((article) => ({
    entry: article.dataset.entry,
    text: [details.id, ...texts(details, ".about"), ...texts(article, "h3, .text")].join("\n").toLowerCase(),
    packages: texts(article, ".packages li"),
  })),
}));
const entries = all.reduce((sum, each) => sum + each.entries.length, 0);

function make(kind, text, parent, name) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return parent.appendChild(made);
}

// Returns the packages of an entry by which it is found, none where its own words are enough; null if it is not found.
function hits({ text, packages }, words) {
  const inside = words.filter((word) => !text.includes(word));
  if (!inside.length) return [];
  const has = (each, word) => each.toLowerCase().includes(word);
  const found = packages.filter((each) => inside.some((word) => has(each, word)));
  return inside.every((word) => found.some((each) => has(each, word))) ? found : null;
}

function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let sum = 0;
  for (const software of all) {
    for (const old of software.summary.querySelectorAll(".hits")) old.remove();
    const found = software.entries.map((entry) => [entry.entry, hits(entry, words)]).filter(([, each]) => each);
    software.details.hidden = !found.length;
    sum += found.length;
    const inside = found.filter(([, each]) => each.length);
    for (const [entry, each] of inside.slice(0, 5)) make("span", `${entry} has ${some(each, 8)}`, software.summary, "hits");
    if (inside.length > 5) make("span", `and ${inside.length - 5} more`, software.summary, "hits");
  }
  count.textContent = words.length ? `${sum} of ${entries} entries` : "";
}

function some(each, most) { return each.slice(0, most).join(", ") + (each.length > most ? ` and ${each.length - most} more` : ""); }

function open() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* `%` alone: no name of ours */ }
  const target = document.getElementById(name);
  for (let each = target; each; each = each.parentElement) {
    if (each.hidden) { query.value = ""; search(); }
    if (each.tagName === "DETAILS") each.open = true;
  }
  target?.scrollIntoView();
}

function table(title, heads, rows, parent) {
  const made = make("table", "", parent);
  make("caption", title, made);
  const head = make("tr", "", make("thead", "", made));
  for (const each of heads) make("th", each, head).scope = "col";
  const body = make("tbody", "", made);
  for (const row of rows) {
    const line = make("tr", "", body);
    for (const each of row) make("td", each, line);
  }
}

function when(time) { return `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`; }

function show(status) {
  if (status.schema_version !== 1) return;
  let latest = "";
  for (const article of document.querySelectorAll("article[data-entry]")) {
    const found = status.entries[article.dataset.entry];
    if (found?.digest !== article.dataset.digest) continue; // of another install
    const place = article.querySelector(".status");
    const gate = found.gate.map((row) => [row.group, row.nodes, row.reason ? `${row.verdict}: ${row.reason}` : row.verdict, row.seen && when(row.seen)]);
    const tests = found.tests.map((row) => [row.test, row.nodes, row.status, when(row.time)]);
    if (gate.length) table("Can nodes run it?", ["Group", "Nodes", "Verdict", "Seen"], gate, place);
    if (tests.length) table("Last tests on nodes", ["Test", "Nodes", "Result", "Run"], tests, place);
    place.hidden = !gate.length && !tests.length;
    latest = [latest, ...found.gate.map((row) => row.seen), ...found.tests.map((row) => row.time)].sort().pop();
  }
  if (latest) document.getElementById("as-of").textContent = `What nodes answered: as of ${when(latest)}.`;
}

query.addEventListener("input", search);
query.addEventListener("keydown", (event) => {
  const first = event.key === "Enter" && all.find(({ details }) => !details.hidden);
  if (!first) return;
  event.preventDefault(); // the same key would close it again
  first.details.open = true;
  first.summary.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== query && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (event.key === "Escape" && query.value) {
    query.value = "";
    search();
    query.focus();
  }
});
addEventListener("hashchange", open);
document.getElementById("find").hidden = false;
open();
fetch("status.json").then((answer) => (answer.ok ? answer.json().then(show) : null)).catch(() => null);
