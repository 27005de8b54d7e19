/** A request of the playground, from which the page's own request and the snippets are made. */
export type Example =
  /** Empty texts are left out. */
  | {
      readonly kind: "chat";
      readonly model: string;
      readonly system: string;
      readonly question: string;
      readonly temperature: string;
      readonly stream: boolean;
      /** A JSON schema that the answer must fit, and the tools that it may call; undefined: none. */
      readonly schema: unknown;
      readonly tools: unknown;
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
    const { model, system, question, temperature, stream, schema, tools } = example;
    return {
      model,
      messages: [
        ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
        { role: "user", content: question },
      ],
      ...(temperature === "" ? {} : { temperature: Number(temperature) }),
      ...(stream ? { stream } : {}),
      ...(schema === undefined
        ? {}
        : { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }),
      ...(tools === undefined ? {} : { tools }),
    };
  }
  const { kind, ...fields } = example;
  if (kind === "images") return { ...fields, response_format: "b64_json" };
  if (kind === "speech") return { ...fields, response_format: "mp3" };
  return { ...fields };
}

const shapes = { object: "an object: {…}", array: "a list: […]", any: "" } as const;

/** JSON that a person has entered: its value, undefined of an empty text, or how to correct it. */
export function jsonIn(
  text: string,
  shape: keyof typeof shapes,
): { readonly value?: unknown; readonly error?: string } {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    const found = Array.isArray(value) ? "array" : typeof value === "object" && value !== null ? "object" : "other";
    return shape === "any" || shape === found ? { value } : { error: `This must be ${shapes[shape]}.` };
  } catch (error) {
    const because = error instanceof Error ? error.message : String(error);
    return { error: `This is no JSON, correct it first: ${because}.` };
  }
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
