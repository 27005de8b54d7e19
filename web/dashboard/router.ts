import { computed, signal } from "@preact/signals";
import { base } from "../shared/api.ts";
import { unsavedFiles } from "./drafts.ts";
import { mayLeave } from "./leaving.ts";
import { addressQuery } from "./query.ts";
import { segmentsOf } from "./segments.ts";

/** Path of the page below the address of Berth, e.g. `/ui/slots/primary`; `/` is the overview. */
export const path = signal(pathOf(location));
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
    const to = pathOf(link);
    if (to !== "/" && !/^\/ui(\/|$)/.test(to)) return;
    event.preventDefault();
    void go(to, link.search);
  });
}

/** Shows another page, unless the person stays for an edit that is not saved. A page reads the query itself. */
export async function go(to: string, query = ""): Promise<void> {
  if (to !== path.value && !(await mayLeave())) return;
  if (to + query !== pathOf(location) + location.search) {
    place += 1;
    history.pushState({ place }, "", addressOf(to) + query);
  }
  path.value = to;
  addressQuery.value = location.search;
  scrollTo(0, 0);
}

/** The browser has changed the address already. An edit that is not saved gets its own back until the person has answered. */
async function followHistory(to: number | undefined): Promise<void> {
  const address = pathOf(location);
  if (address !== path.value && unsavedFiles().length > 0) {
    const kept = path.value;
    const steps = to === undefined ? 0 : to - place;
    if (steps !== 0) history.go(-steps);
    const leaves = await mayLeave();
    if (leaves && steps !== 0) history.go(steps);
    if (!leaves && steps === 0) history.replaceState({ place }, "", addressOf(kept));
    if (!leaves || steps !== 0) return;
  }
  place = to ?? place;
  path.value = address;
  addressQuery.value = location.search;
}

/** For links, which are relative to the address of Berth. */
export function slotPath(name: string): string {
  return `ui/slots/${encodeURIComponent(name)}`;
}

function pathOf({ pathname }: { readonly pathname: string }): string {
  return pathname.startsWith(base.pathname) ? pathname.slice(base.pathname.length - 1) : pathname;
}

function addressOf(path: string): string {
  return base.pathname + path.slice(1);
}

function placeOf(state: unknown): number | undefined {
  return typeof state === "object" && state !== null && "place" in state ? Number(state.place) : undefined;
}
