import type { JSX } from "preact";
import { now } from "./clock.ts";
import { ago } from "./format.ts";

/** An instant as a person says it, with the full date under the pointer. */
export function When({ at }: { readonly at: string | null | undefined }): JSX.Element {
  if (at === null || at === undefined) return <>–</>;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {ago(at, now())}
    </time>
  );
}
