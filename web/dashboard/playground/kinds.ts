import type { JSX } from "preact";
import { Chat } from "./chat.tsx";
import { Images, Speech, Transcription } from "./media.tsx";
import { Raw } from "./raw.tsx";
import { Embeddings, Rerank } from "./texts.tsx";

/** The form of each kind of request. */
export const forms = {
  chat: Chat,
  embeddings: Embeddings,
  rerank: Rerank,
  images: Images,
  speech: Speech,
  transcription: Transcription,
  raw: Raw,
} as const satisfies Readonly<Record<string, () => JSX.Element>>;

export type KindName = keyof typeof forms;
