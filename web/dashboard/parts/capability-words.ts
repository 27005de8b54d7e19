/** What models can, in the words of the playground and of the chat. */
const words: Readonly<Record<string, string>> = {
  embed: "embeddings",
  stt: "transcription",
  tts: "speech",
  image: "images",
};

/** Capabilities of a model for a person. A newer server may know others: their own word then. */
export function capabilityWords(capabilities: readonly string[]): string {
  return capabilities.map((each) => (Object.hasOwn(words, each) ? words[each] : each)).join(", ");
}
