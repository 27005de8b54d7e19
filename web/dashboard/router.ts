import { computed, signal } from "@preact/signals";
import { unsavedFiles } from "./drafts.ts";
import { mayLeave } from "./leaving.ts";
import { segmentsOf } from "./segments.ts";

/** Path of the page, e.g. `/ui/slots/primary`; `/` is the list of slots. */
export const path = signal(location.pathname);
/** The segments after `/ui`; undefined: the address cannot be read. */
export const segments = computed(() => segmentsOf(path.value));

/** The place of the shown page in the tab's history, which the browser does not tell. */
let place = 0;

/** Follows links within the page, and Back and Forward, without loading it anew. */
export function followLinks(): void {
  place = placeOf(history.state) ?? 0;
  history.replaceState({ place }, "");
  addEventListener("popstate", ({ state }) => void followHistory(placeOf(state)));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.origin !== location.origin || link.target !== "" || link.hasAttribute("download")) return;
    if (link.pathname !== "/" && !/^\/ui(\/|$)/.test(link.pathname)) return;
    event.preventDefault();
    void go(link.pathname);
  });
}

/** Shows another page, unless the person stays for an edit that is not saved. */
export async function go(to: string): Promise<void> {
  if (to !== path.value && !(await mayLeave())) return;
  if (to !== location.pathname) {
    place += 1;
    history.pushState({ place }, "", to);
  }
  path.value = to;
  scrollTo(0, 0);
}

/** The browser has changed the address already. An edit that is not saved gets its own back until the person has answered. */
async function followHistory(to: number | undefined): Promise<void> {
  const address = location.pathname;
  if (address !== path.value && unsavedFiles().length > 0) {
    const kept = path.value;
    const steps = to === undefined ? 0 : to - place;
    if (steps !== 0) history.go(-steps);
    const leaves = await mayLeave();
    if (leaves && steps !== 0) history.go(steps);
    if (!leaves && steps === 0) history.replaceState({ place }, "", kept);
    if (!leaves || steps !== 0) return;
  }
  place = to ?? place;
  path.value = address;
}

export function slotPath(name: string): string {
  return `/ui/slots/${encodeURIComponent(name)}`;
}

function placeOf(state: unknown): number | undefined {
  return typeof state === "object" && state !== null && "place" in state ? Number(state.place) : undefined;
}
