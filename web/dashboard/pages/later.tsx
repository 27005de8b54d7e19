import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Show, useLoaded } from "../parts/load.tsx";
import { isPage } from "../segments.ts";
import type { FurtherPage, furtherPages } from "./further.ts";

/** The pages beside the overview and those of slots; undefined until their code is here. */
export const laterPages = signal<typeof furtherPages | undefined>(undefined);

export function isLater(page: string): page is FurtherPage {
  return isPage(page) && page !== "slots";
}

/** One of them, once its code is here. */
export function LaterPage({
  page,
  part,
}: {
  readonly page: FurtherPage;
  readonly part: string | undefined;
}): JSX.Element {
  const [loaded] = useLoaded(async () => (laterPages.value ??= (await import("./further.ts")).furtherPages));
  if (laterPages.value === undefined) return <Show of={loaded}>{() => null}</Show>;
  const Page = laterPages.value[page];
  return <Page part={part} />;
}
