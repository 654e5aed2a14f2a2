"use strict";
const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
const one = (selector) => document.querySelector(selector);

const origin = one("#origin");
function closeOrigin() {
  if (!origin) return;
  origin.hidden = true;
  one("#prompt").classList.remove("beside");
}
const tabs = all("[role=tab]");
function open(id) {
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === id;
    tab.setAttribute("aria-selected", String(chosen));
    one("#" + tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (id !== "prompt") closeOrigin();
}
for (const tab of tabs) tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));

function goTo(position) {
  open("prompt");
  const block = one("#block-" + position);
  block.hidden = false;
  block.scrollIntoView({ block: "center" });
  block.classList.remove("found");
  void block.offsetWidth;
  block.classList.add("found");
}
for (const cell of all(".cell")) cell.addEventListener("click", () => goTo(cell.dataset.block));

const hiddenFamilies = new Set();
for (const chip of all(".chip")) {
  chip.addEventListener("click", () => {
    const family = chip.dataset.family;
    const off = !hiddenFamilies.delete(family);
    if (off) hiddenFamilies.add(family);
    chip.setAttribute("aria-pressed", String(!off));
    for (const each of all("[data-family='" + family + "']:not(.chip)")) each.classList.toggle("dim", off);
  });
}

for (const row of all("tr.entry")) {
  const toggle = () => { row.nextElementSibling.hidden = !row.nextElementSibling.hidden; };
  row.addEventListener("click", toggle);
  row.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
}

function unmark() {
  for (const mark of all("mark")) {
    const parent = mark.parentNode;
    mark.replaceWith(mark.textContent);
    parent.normalize();
  }
}

function highlight(root, wanted) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const node of nodes) {
    let rest = node;
    let at = rest.data.toLowerCase().indexOf(wanted);
    while (at >= 0 && rest.data.length >= at + wanted.length) {
      const found = rest.splitText(at);
      rest = found.splitText(wanted.length);
      const mark = document.createElement("mark");
      found.replaceWith(mark);
      mark.append(found);
      at = rest.data.toLowerCase().indexOf(wanted);
    }
  }
}

const onlyIn = one("#only-in");
function search() {
  const wanted = one("#search").value.trim().toLowerCase();
  unmark();
  let hits = 0;
  for (const item of all(".block, tr.entry, tr.omission")) {
    const content = item.matches("tr.entry") ? item.nextElementSibling : null;
    const text = item.textContent + (content ? content.textContent : "");
    const wrongState = onlyIn && onlyIn.checked && item.matches("tr.entry.out");
    const found = !wanted || text.toLowerCase().includes(wanted);
    item.hidden = !found || Boolean(wrongState);
    if (content) content.hidden = item.hidden || !wanted || !content.textContent.toLowerCase().includes(wanted);
    if (wanted && !item.hidden) {
      hits += 1;
      highlight(item, wanted);
      if (content && !content.hidden) highlight(content, wanted);
    }
  }
  one("#hits").textContent = wanted ? hits + (hits === 1 ? " match" : " matches") : "";
}
let waiting = 0;
one("#search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 80); });
if (onlyIn) onlyIn.addEventListener("change", search);

const copy = one("#copy");
if (copy) copy.addEventListener("click", async () => {
  await navigator.clipboard.writeText(one("#payload-text").textContent);
  copy.textContent = "Copied";
});
function showOrigin(words) {
  for (const each of all(".words.chosen")) each.classList.remove("chosen");
  words.classList.add("chosen");
  const source = words.dataset.source === undefined ? null : one("#source-" + words.dataset.source);
  one("#origin-label").textContent = source ? source.dataset.label : "Not from a file";
  one("#origin-how").textContent = words.dataset.how;
  const text = one("#origin-text");
  text.textContent = "";
  origin.hidden = false;
  one("#prompt").classList.add("beside");
  if (source) markSource(source, words, text);
  const panel = origin.getBoundingClientRect(), chosen = words.getBoundingClientRect();
  if (matchMedia("(min-width: 70rem)").matches) {
    const top = Math.min(chosen.top - 40, innerHeight - panel.height - 16);
    origin.style.top = Math.max(top, one(".tabs").getBoundingClientRect().bottom + 16) + "px";
  } else if (panel.top < chosen.bottom) {
    // The panel lies over the lower part of the prompt: what was chosen stays in sight.
    scrollBy(0, chosen.bottom - panel.top + 16);
  }
}
function markSource(source, words, text) {
  // Offsets count characters; JavaScript counts some of them as two.
  const characters = Array.from(source.textContent);
  const start = Number(words.dataset.start), end = Number(words.dataset.end);
  const here = document.createElement("b");
  here.className = "here";
  here.textContent = characters.slice(start, end).join("");
  text.append(characters.slice(0, start).join(""), here, characters.slice(end).join(""));
  here.scrollIntoView({ block: "nearest" });
}
if (origin) {
  const chosen = (event) => event.target.closest(".words");
  one("#prompt").addEventListener("click", (event) => { if (chosen(event)) showOrigin(chosen(event)); });
  one("#prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosen(event)) showOrigin(chosen(event));
  });
  one("#origin-close").addEventListener("click", closeOrigin);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeOrigin(); });
}
document.documentElement.dataset.ready = "true";
