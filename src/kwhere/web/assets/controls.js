// Small controls: copy buttons, filter forms that leave empty fields out of the URL, menus that close.
export function wireCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
      } catch {
        button.textContent = "press Ctrl-C";
        const range = document.createRange();
        range.selectNodeContents(button.parentElement.querySelector("code"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
      }
      setTimeout(() => { button.textContent = "copy"; }, 1600);
    });
  }
}

export function wireForms(root) {
  for (const form of root.querySelectorAll("form[data-filters]")) {
    form.addEventListener("submit", () => {
      for (const field of form.querySelectorAll("input, select")) if (field.value === "") field.disabled = true;
      setTimeout(() => { for (const field of form.querySelectorAll("[disabled]")) field.disabled = false; }, 0);
    });
    for (const field of form.querySelectorAll("select[data-submit]")) field.addEventListener("change", () => form.requestSubmit());
  }
}

export function wireMenus(root) {
  root.addEventListener("click", (event) => {
    for (const menu of root.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of root.querySelectorAll("details.menu[open]")) menu.open = false;
    if (event.key === "/" && !event.target.closest("input, select, textarea")) {
      const search = root.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });
}
