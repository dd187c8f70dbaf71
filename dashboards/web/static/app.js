// Everything works without this script; it adds live updates, hover texts, ticking, keys and the choice of colours.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

document.documentElement.classList.add("js");

// -- colours

const themes = ["", "light", "dark"];
const themeButton = $("#theme");
function showTheme() {
  const theme = document.documentElement.dataset.theme || "";
  themeButton.textContent = theme === "light" ? "☀" : theme === "dark" ? "☾" : "◐";
  themeButton.dataset.theme = theme || "system";
}
themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  if (next) { document.documentElement.dataset.theme = next; localStorage.setItem("detol-theme", next); }
  else { delete document.documentElement.dataset.theme; localStorage.removeItem("detol-theme"); }
  showTheme();
});
showTheme();

// -- hover texts: an SVG's <title> or an element's title, at once and also by keyboard and touch

const tip = $("#tip");
let tipped = null;

function textOf(element) {
  if (element.dataset.tip) return element.dataset.tip;
  const title = [...element.children].find((child) => child.tagName === "title");
  const text = title ? title.textContent : element.getAttribute("title");
  if (!text) return "";
  if (title) title.remove(); else element.removeAttribute("title"); // or the browser shows it a second time
  element.dataset.tip = text;
  if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", text);
  return text;
}

function findTip(target) {
  for (let element = target; element && element !== document.body; element = element.parentElement) {
    if (!(element instanceof Element)) continue;
    if (element.tagName === "svg" && !element.dataset.tip) return null; // its title is the whole drawing's name
    if (element.dataset.tip || element.hasAttribute("title") || [...element.children].some((c) => c.tagName === "title")) return element;
  }
  return null;
}

function showTip(element, x, y) {
  tip.textContent = textOf(element);
  tip.hidden = !tip.textContent;
  tipped = element;
  const box = tip.getBoundingClientRect();
  tip.style.setProperty("left", `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 8))}px`);
  tip.style.setProperty("top", `${y + 16 + box.height > innerHeight ? y - box.height - 8 : y + 16}px`);
}
function hideTip() { tip.hidden = true; tipped = null; }

document.addEventListener("pointermove", (event) => {
  const element = findTip(event.target);
  if (element) showTip(element, event.clientX, event.clientY); else if (tipped) hideTip();
});
document.addEventListener("pointerleave", hideTip);
document.addEventListener("focusin", (event) => {
  const inner = event.target.closest?.("svg") ? $("[data-tip], circle, path", event.target) : null;
  const element = inner && findTip(inner);
  if (!element) return;
  const box = event.target.getBoundingClientRect();
  showTip(element, box.right, box.bottom);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("scroll", hideTip, { passive: true, capture: true });

// -- a node in the drawing and its row in the table light up together

function light(name, on) {
  for (const element of $$("[data-node]")) if (element.dataset.node === name) element.classList.toggle("lit", on);
}
for (const [kind, on] of [["pointerover", true], ["pointerout", false]]) {
  document.addEventListener(kind, (event) => {
    const element = event.target.closest?.("[data-node]");
    if (element) light(element.dataset.node, on);
  });
}

// -- ticking two trials of a table

function ticked() { return $$("#compare input[name=t]:checked"); }
function showTicked() {
  const button = $("#compare-two");
  if (!button) return;
  const count = ticked().length;
  button.disabled = count !== 2;
  button.textContent = count === 2 ? `Compare ${ticked().map((box) => box.value.split("/").pop()).join(" and ")}` : "Compare two ticked";
}
document.addEventListener("change", (event) => {
  if (event.target.name === "t") {
    const boxes = ticked();
    if (boxes.length > 2) boxes.find((box) => box !== event.target).checked = false;
    showTicked();
  }
  const form = event.target.form;
  if (form && form.dataset.auto !== undefined) go(form);
});
showTicked();

// A form's empty fields only make the address long.
function go(form) {
  for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  form.submit();
}
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.auto === undefined && form.dataset.strip === undefined) return;
  event.preventDefault();
  go(form);
  for (const field of form.elements) field.disabled = false;
});
addEventListener("pageshow", (event) => {
  if (event.persisted) for (const field of $$("form [name]")) field.disabled = false;
});

// -- keys: / finds, j and k walk the rows of a table, [ and ] turn pages or go to the next trial

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { hideTip(); if (event.target.matches?.("input")) event.target.blur(); return; }
  if (event.target.matches?.("input, select, textarea")) return;
  if (event.key === "/") { const field = $("[data-find]"); if (field) { event.preventDefault(); field.focus(); field.select?.(); } }
  if (event.key === "j" || event.key === "k") {
    const links = $$("table.list tbody th a");
    const row = document.activeElement?.closest?.("tr");
    const here = links.findIndex((link) => link.closest("tr") === row);
    const next = links[here < 0 ? 0 : here + (event.key === "j" ? 1 : -1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  }
  if (event.key === "[" || event.key === "]") $(`a[rel=${event.key === "[" ? "prev" : "next"}]`)?.click();
});

// -- live: ask whether the page has changed, and put the parts that did in place

const every = Number(document.body.dataset.every || 0) * 1000;
const pulse = $("#pulse");
let tag = "";

function say(state, text) {
  pulse.hidden = false;
  pulse.dataset.state = state;
  if (pulse.textContent !== text) pulse.textContent = text;
}

function put(fresh) {
  const open = $$("details[open]").map((element) => element.closest("[data-part]")?.id);
  for (const part of $$("[data-part]")) {
    const other = fresh.getElementById(part.id);
    if (!other || part.contains(document.activeElement) && document.activeElement.matches("select, input:not([type=checkbox])")) continue;
    if (part.dataset.seen === undefined) part.dataset.seen = "";
    const text = other.innerHTML;
    if (part.dataset.seen === text || part.innerHTML === text) continue;
    const marks = new Set($$("input[name=t]:checked", part).map((box) => box.value));
    const focus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") || document.activeElement.value : null;
    part.innerHTML = text;
    part.dataset.seen = text;
    for (const box of $$("input[name=t]", part)) box.checked = marks.has(box.value);
    if (focus !== null) $$("a, input", part).find((element) => (element.getAttribute("href") || element.value) === focus)?.focus();
    if (open.includes(part.id)) for (const element of $$("details", part)) element.open = true;
  }
  for (const select of ["state", "origin"]) {
    const old = $(`.filters select[name=${select}]`), next = fresh.querySelector(`.filters select[name=${select}]`);
    if (old && next && old !== document.activeElement && old.innerHTML !== next.innerHTML) { const value = old.value; old.innerHTML = next.innerHTML; old.value = value; }
  }
  showTicked();
}

async function look() {
  let wait = every;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        put(fresh);
        tag = answer.headers.get("ETag") || "";
        wait = Number(fresh.body.dataset.every || 0) * 1000 || every;
        document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
      } else if (answer.status !== 304) throw new Error(String(answer.status));
      if (Number(document.body.dataset.every) < 10 || wait < 10000) say("live", "live"); else say("idle", "up to date");
    } catch (error) {
      say("gone", "no answer");
      wait = Math.max(wait, 5000);
    }
  }
  setTimeout(look, wait);
}
if (every) {
  say(every < 10000 ? "live" : "idle", every < 10000 ? "live" : "up to date");
  setTimeout(look, every);
}
