/* Unpacks plotly.js and the data that this file holds, draws the charts, and shows a trial that is pointed at. */
(async () => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  if (!("DecompressionStream" in window)) {
    byId("trouble").textContent = "This browser cannot unpack the charts: it is older than 2023. Text and tables are whole.";
    byId("trouble").hidden = false;
    return;
  }
  const data = JSON.parse(await unpack("payload"));
  const script = document.createElement("script");
  script.textContent = await unpack("library");
  document.head.append(script);

  // -- colours

  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  function recoloured(part) {
    if (typeof part === "string") return data.dark[part] || part;
    if (Array.isArray(part)) return part.map(recoloured);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, recoloured(value)]));
  }

  // -- one trial

  const element = (name, text, look) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (look) made.className = look;
    return made;
  };
  function table(rows) {
    const made = element("table", undefined, "pairs wrap");
    const body = made.createTBody();
    for (const [name, value] of rows) {
      const row = body.insertRow();
      row.append(element("th", name), element("td", value));
    }
    return made;
  }
  function show(place, number) {
    const told = data.trials[number];
    const parts = [element("h3", told ? told.title : `trial ${number}`)];
    const drawn = data.of[number];
    if (drawn === undefined) {
      parts.push(element("p", "Its topology is not in this report; see: detol results show", "none"));
    } else {
      const frame = element("div", undefined, "drawing");
      frame.innerHTML = data.svgs[drawn]; // all text in it is escaped, and the page's policy lets nothing in it run
      if (place.id === "panel") {
        frame.title = "click to enlarge";
        frame.addEventListener("click", () => open(number));
      }
      parts.push(frame);
    }
    if (told) {
      parts.push(table(told.facts));
      const more = element("details");
      more.append(element("summary", `decisions (${told.decisions.length})`), table(told.decisions));
      parts.push(more);
    }
    place.replaceChildren(...parts);
  }
  let kept = null;
  function point(number, keep) {
    if (keep) kept = number;
    if (keep || kept === null) show(byId("panel"), number);
  }
  function open(number) {
    show(byId("shown"), number);
    byId("dialog").showModal();
  }

  // -- charts

  const touch = matchMedia("(pointer: coarse)").matches;
  const options = {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    doubleClick: "reset+autosize",
  };
  async function draw(key) {
    const place = byId(key);
    const made = dark() ? recoloured(data.figures[key]) : structuredClone(data.figures[key]);
    made.layout.showlegend = false; // the page has one, which lies better on small screens
    made.layout.height -= 24;
    if (touch) made.layout.dragmode = false; // so that a finger scrolls the page
    place.querySelector(".wait")?.remove();
    await window.Plotly.react(place, made.data, made.layout, options);
  }
  const trial = (event) => event.points.map((each) => each.customdata).find((number) => number !== undefined);
  async function first(key) {
    await draw(key);
    const place = byId(key);
    place.on("plotly_click", (event) => {
      const number = trial(event);
      if (number === undefined) return;
      if (key === "front") point(number, true);
      else open(number);
    });
    if (key === "front") place.on("plotly_hover", (event) => trial(event) !== undefined && point(trial(event), false));
  }
  for (const key of Object.keys(data.figures)) await first(key);

  const again = () => Promise.all(Object.keys(data.figures).map(draw));
  system.addEventListener("change", again);
  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    again();
  });
  for (const button of document.querySelectorAll(".look")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const number = Number(button.dataset.trial);
      if ("panel" in button.dataset) point(number, true);
      else open(number);
    });
  }
  point(data.winner, false);
  byId("dialog").addEventListener("click", (event) => event.target === byId("dialog") && byId("dialog").close());
  root.classList.add("ready");
})().catch((error) => {
  const place = document.getElementById("trouble");
  place.textContent = `The charts could not be drawn: ${error.message}`;
  place.hidden = false;
});
