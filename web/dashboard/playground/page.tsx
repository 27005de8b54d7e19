import type { JSX } from "preact";
import type { V1Model } from "../../../src/api/management/v1-model.ts";
import type { SlotCapability } from "../../../src/api/names.ts";
import { list } from "../../shared/api.ts";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
import type { KindName } from "./kinds.ts";

interface Kind {
  readonly name: KindName;
  readonly word: string;
  /** The capability that a slot or a provider must have; absent: none. */
  readonly needs?: SlotCapability;
}

const kinds: readonly Kind[] = [
  { name: "chat", word: "Chat", needs: "chat" },
  { name: "embeddings", word: "Embeddings", needs: "embeddings" },
  { name: "rerank", word: "Rerank", needs: "rerank" },
  { name: "images", word: "Images", needs: "image" },
  { name: "speech", word: "Speech", needs: "speech" },
  { name: "transcription", word: "Transcription", needs: "transcription" },
  { name: "raw", word: "Raw request" },
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
      {shown !== undefined && canBeServed(shown) && <Form key={shown.name} kind={shown.name} />}
    </>
  );
}

/** The fields of a kind, whose code comes once the playground is opened. */
function Form({ kind }: { readonly kind: KindName }): JSX.Element {
  const [kinds] = useLoaded(() => import("./kinds.ts"));
  return (
    <Show of={kinds}>
      {({ forms }) => {
        const Fields = forms[kind];
        return <Fields />;
      }}
    </Show>
  );
}
