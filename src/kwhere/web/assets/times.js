// Times: the server writes them in the site's zone; a switch shows them in the viewer's, relative ones keep running.
const KEY = "kwhere-zone";

export function viewerZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

export function siteZone() {
  return document.documentElement.dataset.zone || "UTC";
}

export function shownZone() {
  return localStorage.getItem(KEY) === "viewer" ? viewerZone() : siteZone();
}

function relative(seconds) {
  if (seconds < 1.5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

// The server's clock rules: the viewer's may be off.
const skewMs = (Date.parse(document.documentElement.dataset.now) || Date.now()) - Date.now();

export function showRelativeTimes(root) {
  const now = Date.now() + skewMs;
  for (const element of root.querySelectorAll("time[data-relative]")) {
    const text = relative(Math.max(0, (now - Date.parse(element.dateTime)) / 1000));
    if (element.textContent !== text) element.textContent = text;
  }
}

function showAbsoluteTimes(root, zone) {
  for (const element of root.querySelectorAll("time[data-absolute]")) {
    const kind = element.dataset.absolute;
    const parts = {};
    const format = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
    });
    for (const part of format.formatToParts(new Date(element.dateTime))) parts[part.type] = part.value;
    const day = `${kind === "short" ? "" : `${parts.year}-`}${parts.month}-${parts.day}`;
    element.textContent = `${day} ${parts.hour}:${parts.minute}${kind === "seconds" ? `:${parts.second}` : ""}`;
  }
  for (const element of root.querySelectorAll("[data-zone-name]")) element.textContent = zone;
}

export function wireZoneSwitch(root) {
  setInterval(() => showRelativeTimes(document), 1000);
  const button = root.querySelector("[data-zone-switch]");
  if (shownZone() !== siteZone()) showAbsoluteTimes(root, shownZone());
  if (!button || viewerZone() === siteZone()) return;
  button.hidden = false;
  const label = () => { button.textContent = shownZone() === siteZone() ? `show in ${viewerZone()}` : `show in ${siteZone()}`; };
  label();
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, shownZone() === siteZone() ? "viewer" : "site");
    label();
    showAbsoluteTimes(document, shownZone());
    document.dispatchEvent(new CustomEvent("kwhere:zone"));
  });
}
