// Shows times in the zone of the person who reads them, copies what they may need elsewhere, and
// keeps parts of a page up to date. Every page works without it, in UTC.
(() => {
  "use strict";
  const EACH_MS = 10_000;
  const ANSWER_MAX_MS = 20_000;
  const COPIED_MS = 2_000;
  const UTC = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g;

  const zone = new Intl.DateTimeFormat("en", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
    second: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });

  function local(time) {
    const part = {};
    for (const { type, value } of zone.formatToParts(time)) part[type] = value;
    const day = `${part.year}-${part.month}-${part.day}`;
    return `${day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
  }

  // Makes a page that the server wrote one for this person. `data-times` marks our own sentences.
  function adapt(page) {
    for (const time of page.querySelectorAll("time")) {
      time.textContent = local(new Date(time.dateTime));
    }
    for (const text of page.querySelectorAll("[data-times]")) {
      text.textContent = text.textContent.replace(UTC, (utc) => {
        const [day, time] = utc.split(" ");
        return local(new Date(`${day}T${time}Z`));
      });
    }
    for (const button of page.querySelectorAll("button.copy")) {
      button.hidden = !navigator.clipboard;
    }
  }

  async function copy(button) {
    const label = button.firstChild;
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    } catch {
      said = "The browser does not allow it";
    }
    label.data = said;
    setTimeout(() => { label.data = "Copy"; }, COPIED_MS);
  }

  // Says above the page, and in its tab, since when it is not up to date.
  function markStale(since) {
    if (document.getElementById("stale")) return;
    document.title = `Not up to date: ${document.title}`;
    const line = document.createElement("p");
    line.id = "stale";
    line.className = "said";
    line.setAttribute("role", "alert");
    line.append(`Not up to date since ${local(since)}. It is tried every 10 s. `);
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "Load the page";
    line.append(link, " to see why.");
    document.querySelector("main").prepend(line);
  }

  // Asks for this page and changes what differs. With the header it keeps no session open.
  async function refresh(parts) {
    const answer = await fetch(location.href, {
      headers: { "payfold-refresh": "1" },
      signal: AbortSignal.timeout(ANSWER_MAX_MS),
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = parts.map((part) => page.getElementById(part.id));
    if (!fresh.every((part) => part)) throw new Error("another page came");
    adapt(page);
    parts.forEach((part, at) => Idiomorph.morph(part, fresh[at]));
    document.title = page.title;
    document.getElementById("stale")?.remove();
  }

  function keepUpToDate() {
    const parts = [...document.querySelectorAll("[data-live]")];
    if (parts.length === 0) return;
    let since = new Date();
    const next = () => setTimeout(async () => {
      try {
        await refresh(parts);
        since = new Date();
      } catch {
        markStale(since);
      }
      next();
    }, EACH_MS);
    next();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  keepUpToDate();
  adapt(document);
})();
