// The console works without this file. It puts fresh numbers into the page that is
// open, and lets keys work on the review page. It makes no HTML from texts.
"use strict";

(function live() {
  const from = document.body.dataset.live;
  const said = document.getElementById("live");
  if (!from || !said) return;
  const every = Number(document.body.dataset.every) || 5000;
  let etag = "";
  let failures = 0;

  function show(texts) {
    for (const place of document.querySelectorAll("[data-text]")) {
      const text = texts[place.dataset.text];
      if (text !== undefined && place.textContent !== text) place.textContent = text;
    }
    for (const line of document.querySelectorAll("[data-points]")) {
      const points = texts[line.dataset.points];
      if (points !== undefined) line.setAttribute("points", points);
    }
  }

  async function look() {
    if (document.hidden) return again();
    try {
      const answer = await fetch(from, { headers: etag ? { "If-None-Match": etag } : {}, credentials: "same-origin", redirect: "error" });
      if (answer.status === 401) {
        said.textContent = "You are signed out. Numbers are no longer kept fresh.";
        return;
      }
      if (answer.status === 200) {
        etag = answer.headers.get("ETag") || "";
        show(await answer.json());
      }
      if (answer.status >= 500) throw new Error("server");
      failures = 0;
      said.textContent = "";
    } catch (err) {
      failures++;
      if (failures > 1) said.textContent = "The server does not answer. Numbers may be old.";
    }
    again();
  }

  // Spread out, so that many open pages do not ask at the same moment; longer apart
  // while nobody answers.
  function again() {
    setTimeout(look, every * Math.min(1 + failures, 6) * (0.9 + 0.2 * Math.random()));
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) etag = ""; });
  again();
})();

(function keys() {
  const help = document.querySelector(".keys");
  if (!help) return;
  help.hidden = false;
  const on = document.getElementById("keys-on");
  const name = "consign-keys";
  try { on.checked = localStorage.getItem(name) !== "off"; } catch (err) { on.checked = true; }
  on.addEventListener("change", () => { try { localStorage.setItem(name, on.checked ? "on" : "off"); } catch (err) { /* for this page alone */ } });

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (at instanceof HTMLTextAreaElement && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      at.form.requestSubmit();
      return;
    }
    const writing = at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement ||
      (at instanceof HTMLInputElement && at.type !== "radio" && at.type !== "checkbox");
    if (!on.checked || writing || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = document.querySelector('[data-key="' + CSS.escape(event.key) + '"]');
    if (!place) return;
    event.preventDefault();
    if (place instanceof HTMLAnchorElement) return place.click();
    if (place instanceof HTMLInputElement) place.checked = true;
    place.focus(); // buttons are only gone to: pressing one is a decision
  });
})();
