import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useLayoutEffect, useRef } from "preact/hooks";
import { highlightIn } from "../highlight.ts";
import { blocksOf, safeHtml } from "../markdown.ts";

/**
 * Markdown of a model, which is untrusted: block by block, so that a long answer is drawn anew at its end only. A text that
 * stays the same is not taken apart again: the page draws with each piece of an answer, below a hundred earlier ones.
 */
export const Markdown = memo(function Markdown({ text }: { readonly text: string }): JSX.Element {
  return (
    <div class="markdown">
      {blocksOf(text).map((raw, at) => (
        <Block key={at} raw={raw} />
      ))}
    </div>
  );
});

const Block = memo(function Block({ raw }: { readonly raw: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  // Before it is seen: the header of a code block would push what is below it down.
  useLayoutEffect(() => {
    if (box.current !== null) highlightIn(box.current);
  }, [raw]);
  return <div ref={box} dangerouslySetInnerHTML={{ __html: safeHtml(raw) }} />;
});
