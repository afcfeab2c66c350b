// Parts that renew themselves: not while nobody looks, not under the reader's hand; and when the server is silent, say so.
let silentSince = null;

function isInUse(target) {
  return Boolean(target.querySelector(".chart-place:hover, .as-table") || target.contains(document.activeElement));
}

function tell(text) {
  const notice = document.querySelector("[data-stale]");
  if (!notice) return;
  notice.hidden = text === "";
  notice.textContent = text;
}

function failed() {
  silentSince = silentSince || new Date();
  tell(`The server has not answered since ${silentSince.toLocaleTimeString()}; the figures below are from before that.`);
}

export function wireLive(root) {
  root.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden || isInUse(event.detail.target)) event.preventDefault();
  });
  root.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) {
      silentSince = null;
      tell("");
    } else {
      failed();
    }
  });
}
