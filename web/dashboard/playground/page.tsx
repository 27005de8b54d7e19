import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { SlotCapability } from "../../../src/api/names.ts";
import { Loading } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { forms, type KindName } from "./kinds.ts";
import { Served, useServed } from "./served.ts";

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
  const models = useServed();
  const known = models.state === "loading" ? undefined : models.value;
  const isServed = ({ needs }: Kind): boolean =>
    needs === undefined || known?.some(({ berth }) => berth.capabilities.some((each) => each === needs)) === true;
  const shown = kinds.find(({ name }) => name === part);
  // A form stays once it is shown: it keeps what a person has chosen and typed while a slot is away.
  const hasForm = useRef(false);
  hasForm.current ||= shown !== undefined && (isServed(shown) || models.state === "failed");
  return (
    <>
      <PageHead title="Playground" context="Each kind of request, by hand." />
      <Tabs
        label="Kinds of request"
        parts={kinds.map((kind) => ({
          name: kind.word,
          href: `ui/playground/${kind.name}`,
          isMuted: known !== undefined && !isServed(kind),
        }))}
        current={shown?.word ?? ""}
      />
      {shown === undefined && <p>There is no such kind of request.</p>}
      {shown !== undefined &&
        (hasForm.current ? (
          <Served.Provider value={models}>
            <Form kind={shown.name} />
          </Served.Provider>
        ) : models.state === "loading" ? (
          <Loading />
        ) : (
          <p class="empty" role="status">
            Nothing here can do this: no slot and no provider has the capability {shown.needs}.{" "}
            <span>
              Pull a model for it on the page <a href="ui/models">Models</a>, or name a provider on the page{" "}
              <a href="ui/providers">Providers</a>.
            </span>
          </p>
        ))}
    </>
  );
}

function Form({ kind }: { readonly kind: KindName }): JSX.Element {
  const Fields = forms[kind];
  return <Fields />;
}
