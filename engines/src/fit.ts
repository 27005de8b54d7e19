import { setImmediate as turn } from "node:timers/promises";
import type { LlamaModel } from "node-llama-cpp";
import { contextExceeded } from "./refusal.ts";

/** Characters that are tokenized at once: what takes longer would hold up every other request, and the health probe. */
const pieceLength = 65_536;
/** A text that is cut within a word may have more tokens there than the whole text. */
const tokensPerCut = 64;
/** Characters whose tokens are counted, of a text that is refused. */
const countedLength = 1_048_576;

/**
 * Throws Refusal for a long text with more tokens than the context, with their number: of more than a million
 * characters, by the number in the first million. To tokenize megabytes at once would stop this process until its health
 * probes fail.
 */
export async function checkFits(
  model: Pick<LlamaModel, "tokenize">,
  text: string,
  contextSize: number,
  signal: AbortSignal,
): Promise<void> {
  if (text.length <= pieceLength) return;
  let tokens = 0;
  let certain = 0;
  let at = 0;
  while (at < text.length && !(at >= countedLength && certain > contextSize)) {
    const end = cutAt(text, at + pieceLength, at);
    const found = model.tokenize(text.slice(at, end), true, at === 0 ? undefined : "trimLeadingSpace").length;
    tokens += found;
    certain += Math.max(0, found - tokensPerCut);
    at = end;
    await turn(undefined, { signal });
  }
  if (certain > contextSize) throw contextExceeded(Math.round((tokens * text.length) / at), contextSize);
}

/** The last blank before that place, before which no token goes on; the place itself where none comes after `from`. */
function cutAt(text: string, place: number, from: number): number {
  if (place >= text.length) return text.length;
  const blank = text.lastIndexOf(" ", place);
  return blank > from ? blank : place;
}
