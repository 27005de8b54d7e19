import { setImmediate as turn } from "node:timers/promises";
import type { LlamaModel } from "node-llama-cpp";
import { contextExceeded } from "./refusal.ts";

/** Characters that are tokenized at once: what takes longer would hold up every other request, and the health probe. */
const pieceLength = 65_536;
/** Where a text is cut, a token may become several. */
const tokensPerCut = 64;

/**
 * Throws Refusal for a long text whose beginning has more tokens than the context already: to tokenize megabytes stops
 * this process until its health probes fail.
 */
export async function checkFits(
  model: Pick<LlamaModel, "tokenize">,
  text: string,
  contextSize: number,
  signal?: AbortSignal,
): Promise<void> {
  if (text.length <= pieceLength) return;
  let tokens = 0;
  for (let at = 0; at < text.length; at += pieceLength) {
    tokens += Math.max(0, model.tokenize(text.slice(at, at + pieceLength)).length - tokensPerCut);
    if (tokens > contextSize) throw contextExceeded(tokens, contextSize);
    await turn(undefined, signal === undefined ? {} : { signal });
  }
}
