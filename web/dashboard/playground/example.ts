/** A request of the playground, from which the page's own request and the snippets are made. */
export type Example =
  /** Empty texts are left out. */
  | {
      readonly kind: "chat";
      readonly model: string;
      readonly system: string;
      readonly question: string;
      readonly temperature: string;
    }
  | { readonly kind: "embeddings"; readonly model: string; readonly input: readonly string[] }
  | { readonly kind: "rerank"; readonly model: string; readonly query: string; readonly documents: readonly string[] }
  | { readonly kind: "images"; readonly model: string; readonly prompt: string; readonly size: string }
  | { readonly kind: "speech"; readonly model: string; readonly input: string; readonly voice: string }
  | { readonly kind: "transcription"; readonly model: string; readonly fileName: string }
  /** `body` is sent as it is; undefined: none. */
  | { readonly kind: "raw"; readonly method: string; readonly url: URL; readonly body: string | undefined };

export type JsonExample = Exclude<Example, { readonly kind: "raw" | "transcription" }>;

export const paths = {
  chat: "/v1/chat/completions",
  embeddings: "/v1/embeddings",
  rerank: "/v1/rerank",
  images: "/v1/images/generations",
  speech: "/v1/audio/speech",
  transcription: "/v1/audio/transcriptions",
} as const;

/** The body of a request, as OpenAI's API has it. */
export function bodyOf(example: JsonExample): Readonly<Record<string, unknown>> {
  if (example.kind === "chat") {
    const { model, system, question, temperature } = example;
    return {
      model,
      messages: [
        ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
        { role: "user", content: question },
      ],
      ...(temperature === "" ? {} : { temperature: Number(temperature) }),
    };
  }
  const { kind, ...fields } = example;
  if (kind === "images") return { ...fields, response_format: "b64_json" };
  if (kind === "speech") return { ...fields, response_format: "mp3" };
  return { ...fields };
}

/** The lines of a text that have something in them. */
export function linesOf(text: string): readonly string[] {
  return text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
}

/** An address on this server for a path that a person has entered. Throws a sentence: a token goes to no other server. */
export function addressOf(path: string, here: URL): URL {
  const url = /^\/(?![/\\])/.test(path) ? URL.parse(`.${path}`, here.href) : null;
  if (url === null || url.origin !== here.origin)
    throw new Error("The path begins with one slash and names something on this server, such as /v1/models.");
  return url;
}
