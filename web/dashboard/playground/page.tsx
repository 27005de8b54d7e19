import type { JSX } from "preact";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
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
      <PageHead title="Playground" context="Each kind of request, by hand." />
      <Tabs
        label="Kinds of request"
        parts={Object.entries(parts).map(([each, [label]]) => ({ name: label, href: `ui/playground/${each}` }))}
        current={shown?.[1][0] ?? ""}
      />
      {Part === undefined ? <p>There is no such kind of request.</p> : <Part key={part} />}
    </>
  );
}
