import { computed, signal } from "@preact/signals";

/** Path of the page, e.g. `/ui/slots/primary`; `/` is the list of slots. */
export const path = signal(location.pathname);
/** The segments after `/ui`. */
export const segments = computed(() =>
  path.value
    .replace(/^\/ui(?=\/|$)/, "")
    .split("/")
    .filter((each) => each !== "")
    .map((each) => decoded(each)),
);

/** Follows links within the page, and Back and Forward, without loading it anew. */
export function followLinks(): void {
  addEventListener("popstate", () => (path.value = location.pathname));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.origin !== location.origin || link.target !== "" || link.hasAttribute("download")) return;
    if (link.pathname !== "/" && !/^\/ui(\/|$)/.test(link.pathname)) return;
    event.preventDefault();
    go(link.pathname);
  });
}

export function go(to: string): void {
  if (to !== location.pathname) history.pushState(null, "", to);
  path.value = to;
  scrollTo(0, 0);
  // For a reader of the screen, the page begins anew.
  document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
}

export function slotPath(name: string): string {
  return `/ui/slots/${encodeURIComponent(name)}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
