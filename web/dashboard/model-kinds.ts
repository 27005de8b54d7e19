/** The kinds of models, in the words of the page. */
export const kindWords = [
  ["chat", "Chat"],
  ["embed", "Embeddings"],
  ["rerank", "Rerank"],
  ["audio", "Speech"],
  ["image", "Images"],
] as const;
export type Kind = (typeof kindWords)[number][0];

const kinds: Readonly<Record<string, Kind>> = {
  chat: "chat",
  completion: "chat",
  embed: "embed",
  embeddings: "embed",
  rerank: "rerank",
  stt: "audio",
  tts: "audio",
  transcription: "audio",
  speech: "audio",
  image: "image",
  images: "image",
};

/** The kind of a model, by the first of its capabilities that is known here; undefined: none is. */
export function kindOf(capabilities: readonly string[]): Kind | undefined {
  for (const each of capabilities) if (Object.hasOwn(kinds, each)) return kinds[each];
  return undefined;
}

/** A number of parameters as people say it, e.g. `4.0B` or `270M`. */
export function parametersText(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)}B`;
  return count >= 1e6 ? `${Math.round(count / 1e6)}M` : `${Math.round(count / 1e3)}K`;
}
