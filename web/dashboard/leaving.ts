import { drafts, unsavedFiles } from "./drafts.ts";
import { ask } from "./parts/ask.tsx";

/** Has the browser ask before it closes, reloads or leaves a page with an edit that is not saved. */
export function guardUnsaved(): void {
  addEventListener("beforeunload", (event) => {
    if (drafts.value.size > 0) event.preventDefault();
  });
}

/** Whether the page may be replaced by another one: at once where nothing is lost, else as the person says. */
export async function mayLeave(): Promise<boolean> {
  const files = unsavedFiles();
  if (files.length === 0) return true;
  const text = `Your edit of ${files.join(" and ")} is not saved. Leave this page and lose it?`;
  const isLeaving = await ask({ text, yes: "Leave", no: "Stay" });
  if (isLeaving) drafts.value = new Map();
  return isLeaving;
}
