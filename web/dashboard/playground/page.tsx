import type { JSX } from "preact";
import type { V1Model } from "../../../src/api/management/v1-model.ts";
import type { SlotCapability } from "../../../src/api/names.ts";
import { list } from "../../shared/api.ts";
import { useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Chat } from "./chat.tsx";
import { Images, Speech, Transcription } from "./media.tsx";
import { Raw } from "./raw.tsx";
import { Embeddings, Rerank } from "./texts.tsx";

interface Kind {
  readonly name: string;
  readonly word: string;
  readonly Part: () => JSX.Element;
  /** What a slot or a provider must be able to do; absent: nothing. */
  readonly needs?: SlotCapability;
}

const kinds: readonly Kind[] = [
  { name: "chat", word: "Chat", Part: Chat, needs: "chat" },
  { name: "embeddings", word: "Embeddings", Part: Embeddings, needs: "embeddings" },
  { name: "rerank", word: "Rerank", Part: Rerank, needs: "rerank" },
  { name: "images", word: "Images", Part: Images, needs: "image" },
  { name: "speech", word: "Speech", Part: Speech, needs: "speech" },
  { name: "transcription", word: "Transcription", Part: Transcription, needs: "transcription" },
  { name: "raw", word: "Raw request", Part: Raw },
];

/** Each kind of request that this server answers, to be tried by hand. */
export function PlaygroundPage({ part = "chat" }: { readonly part?: string | undefined }): JSX.Element {
  const [models] = useLoaded(() => list<V1Model>("/v1/models?available=1"));
  const known = models.state === "here" ? models.value : undefined;
  const canBeServed = ({ needs }: Kind): boolean =>
    needs === undefined ||
    known === undefined ||
    known.some(({ berth }) => berth.capabilities.some((each) => each === needs));
  const shown = kinds.find(({ name }) => name === part);
  return (
    <>
      <PageHead title="Playground" context="Each kind of request, by hand." />
      <Tabs
        label="Kinds of request"
        parts={kinds.map((kind) => ({
          name: kind.word,
          href: `ui/playground/${kind.name}`,
          isMuted: !canBeServed(kind),
        }))}
        current={shown?.word ?? ""}
      />
      {shown === undefined && <p>There is no such kind of request.</p>}
      {shown !== undefined && !canBeServed(shown) && (
        <p class="empty" role="status">
          Nothing here can do this: no slot and no provider has the capability {shown.needs}.{" "}
          <span>
            Pull a model for it on the page <a href="ui/models">Models</a>, or name a provider on the page{" "}
            <a href="ui/providers">Providers</a>.
          </span>
        </p>
      )}
      {shown !== undefined && canBeServed(shown) && <shown.Part key={part} />}
    </>
  );
}
