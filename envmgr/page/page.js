"use strict";
// Search over what the page already has, and what `status.json` beside it says. All text goes in as text, never as HTML.
const query = document.getElementById("query");
const count = document.getElementById("count");
const all = [...document.querySelectorAll(".software")].map((details) => ({
  details,
  summary: details.querySelector("summary"),
  text: [...details.querySelectorAll("summary, h3, .text")].map((each) => each.textContent).join("\n").toLowerCase(),
  packages: [...details.querySelectorAll(".packages li")].map((each) => each.textContent.trim()),
}));

function make(kind, text, parent, name) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return parent.appendChild(made);
}

function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const { details, summary, text, packages } of all) {
    summary.querySelector(".hits")?.remove();
    const inside = words.filter((word) => !text.includes(word));
    const hits = inside.length ? packages.filter((each) => inside.some((word) => each.toLowerCase().includes(word))) : [];
    const missing = inside.some((word) => !hits.some((each) => each.toLowerCase().includes(word)));
    details.hidden = missing;
    if (missing) continue;
    found += 1;
    const names = [...new Set(hits)];
    if (names.length) make("span", `has ${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}`, summary, "hits");
  }
  count.textContent = words.length ? `${found} of ${all.length} names` : "";
}

function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
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
  for (const article of document.querySelectorAll("article[data-entry]")) {
    const found = status.entries[article.dataset.entry];
    if (!found || found.digest !== article.dataset.digest) continue;
    const place = article.querySelector(".status");
    place.hidden = false;
    if (found.gate.length) table("Can nodes run it?", ["Group", "Nodes", "Verdict", "Seen"], found.gate.map((row) => [row.group, row.nodes, row.reason ? `${row.verdict}: ${row.reason}` : row.verdict, row.seen ? when(row.seen) : ""]), place);
    if (found.tests.length) table("Last tests on nodes", ["Test", "Nodes", "Result", "Run"], found.tests.map((row) => [row.test, row.nodes, row.status, when(row.time)]), place);
  }
  document.getElementById("as-of").textContent = `What nodes answered: as of ${when(status.written)}.`;
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
