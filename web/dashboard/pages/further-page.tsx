import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Show, useLoaded } from "../parts/load.tsx";
import { isPage } from "../segments.ts";
import type { furtherPages, FurtherName } from "./further.ts";

/** The pages beside the overview and those of slots; undefined until their code is here. */
export const loadedPages = signal<typeof furtherPages | undefined>(undefined);

export function isFurther(page: string): page is FurtherName {
  return isPage(page) && page !== "slots";
}

async function load(): Promise<void> {
  try {
    loadedPages.value = (await import("./further.ts")).furtherPages;
  } catch {
    throw new Error("This page cannot be loaded: Berth is out of reach, or of another version now. Reload the page.");
  }
}

/** One of them, once its code is here. */
export function FurtherPage({
  page,
  part,
}: {
  readonly page: FurtherName;
  readonly part: string | undefined;
}): JSX.Element {
  const [loaded] = useLoaded(load);
  if (loadedPages.value === undefined) return <Show of={loaded}>{() => null}</Show>;
  const Page = loadedPages.value[page];
  return <Page part={part} />;
}
