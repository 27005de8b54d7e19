import type { JSX } from "preact";
import { Images, Speech, Transcription } from "./media.tsx";
import { Raw } from "./raw.tsx";
import { Embeddings, Rerank } from "./texts.tsx";

const parts = {
  embeddings: ["Embeddings", Embeddings],
  rerank: ["Rerank", Rerank],
  images: ["Images", Images],
  speech: ["Speech", Speech],
  transcription: ["Transcription", Transcription],
  raw: ["Raw request", Raw],
} as const;

/** Each kind of request that this server answers, to be tried by hand. */
export function PlaygroundPage({ part = "embeddings" }: { readonly part?: string | undefined }): JSX.Element {
  const shown = Object.entries(parts).find(([name]) => name === part);
  const Part = shown?.[1][1];
  return (
    <>
      <h1>Playground</h1>
      <nav class="parts" aria-label="Kinds of request">
        {Object.entries(parts).map(([name, [label]]) => (
          <a key={name} href={`ui/playground/${name}`} aria-current={name === part ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      {Part === undefined ? <p>There is no such kind of request.</p> : <Part key={part} />}
    </>
  );
}
