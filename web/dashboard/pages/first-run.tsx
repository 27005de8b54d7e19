import type { ComponentChildren, JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { isAvailable } from "../../../src/api/states.ts";
import { useEffect } from "preact/hooks";
import { base, call, list } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import { acting } from "../../shared/toast.tsx";
import { linesFor } from "../client-lines.ts";
import { firstChoices, stepOf, type InstallState, type Step } from "../first-steps.ts";
import { history } from "../history.ts";
import { modelChanges, pulls, slots } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { CatalogueCard } from "../parts/catalogue-card.tsx";
import { Loading, Show, useLoaded } from "../parts/load.tsx";
import { NotSetUp } from "../parts/slot-list.tsx";
import { PullStrip } from "../parts/pull-strip.tsx";
import { isSetUp } from "../slot-order.ts";
import { figureOf } from "../traffic-steps.ts";

interface FirstRunProps {
  readonly hasGpu: boolean;
  /** The rest of the page, which is left out as long as there is nothing to show in it. */
  readonly children: ComponentChildren;
}

/** As it was read last: who goes back to the overview finds it drawn, and scrolled as it was. */
let last: InstallState | undefined;

/** The three steps of a new installation, above the rest of the page or in its place, until an answer or a person ends them. */
export function FirstRun({ hasGpu, children }: FirstRunProps): JSX.Element {
  const all = [...slots.value.values()];
  const [install, again] = useLoaded(
    () => call("GET /api/install/state"),
    [all.some(({ state }) => isAvailable(state)), modelChanges.value],
  );
  last = install.state === "loading" ? last : install.value;
  // Nothing is known of a slot that the operator has not published yet.
  const isPublished = ({ state, conditions }: SlotView): boolean => state !== "offline" || conditions.length > 0;
  const isUsed = all.some((slot) => isPublished(slot) && isSetUp(slot));
  // The steps would push the page below away under a pointer that clicks.
  if (install.state === "loading" && last === undefined) return <Loading />;
  const first = last?.first_run === true ? last : undefined;
  const isBare = first?.has_models === false && !isUsed;
  const choose = isBare ? (
    <Choose hasGpu={hasGpu} />
  ) : (
    <p>
      There is no model yet: choose one among <a href="ui/models">all models</a>.
    </p>
  );
  // One place for the page below: at another depth it would be drawn, and read, anew.
  return (
    <>
      {first !== undefined && <Steps install={first} choose={choose} onEnd={again} />}
      {!isBare && children}
    </>
  );
}

/** Has the slot for chats hold the model, which is being pulled: the slot waits for it, also where this page is left. */
async function hold(model: string): Promise<void> {
  const body = { name: "primary", model: { default: model } };
  await acting(() => call("POST /api/slots", { body }), `The slot primary loads ${model} once it is here.`);
}

const titles = [
  ["Choose a model", ["choose"]],
  ["Pull and load it", ["hold", "pull", "load"]],
  ["Talk to it", ["talk"]],
] as const satisfies readonly (readonly [string, readonly Step[]])[];

const complete = (): Promise<unknown> => call("POST /api/install/complete");

interface StepsProps {
  readonly install: InstallState;
  /** What a person does in the first step. */
  readonly choose: JSX.Element;
  readonly onEnd: () => void;
}

function Steps({ install, choose, onEnd }: StepsProps): JSX.Element | null {
  const step = stepOf({ install, slots: [...slots.value.values()], pulls: [...pulls.value.values()] });
  const now = titles.findIndex(([, steps]) => steps.some((each) => each === step));
  const hasAnswered = figureOf(history.value, "tokens_out").some((tokens) => tokens > 0);
  useEffect(() => {
    // A token that may not end them sees them again once no answer is recent.
    if (hasAnswered) void complete().then(onEnd, () => undefined);
  }, [hasAnswered]);
  if (hasAnswered) return null;
  return (
    <section class="card first-steps" aria-label="First steps">
      <div class="chart-head">
        <h2>Welcome: three steps to the first answer</h2>
        <Action onClick={complete} onDone={onEnd}>
          Hide this
        </Action>
      </div>
      <ol class="steps">
        {titles.map(([title], nth) => (
          <li key={title} class={nth < now ? "done" : undefined} aria-current={nth === now ? "step" : undefined}>
            {title}
          </li>
        ))}
      </ol>
      {step === "choose" ? choose : <Now step={step} />}
    </section>
  );
}

function Now({ step }: { readonly step: Exclude<Step, "choose"> }): JSX.Element {
  switch (step) {
    case "hold":
      return (
        <p>
          There is a model, and no slot holds it yet: open a slot below, such as <a href="ui/slots/primary">primary</a>,
          and set it up.
        </p>
      );
    case "pull":
      return (
        <>
          <p>It comes here once, and is kept. Then the slot primary loads it.</p>
          <PullStrip />
        </>
      );
    case "load":
      return <p>A slot holds a model, and is not ready yet. It says below why.</p>;
    case "talk":
      return <Talk />;
    default:
      return step satisfies never;
  }
}

function Choose({ hasGpu }: { readonly hasGpu: boolean }): JSX.Element {
  const [catalog] = useLoaded(() => list("GET /api/models/catalog"));
  return (
    <>
      <p>
        There is no model yet. These fit this machine, the best first; <a href="ui/models">all models</a> are on their
        own page.
      </p>
      <Show of={catalog}>
        {(all) => (
          <ul class="cards" aria-label="Models to begin with">
            {firstChoices(all, hasGpu).map((model) => (
              <CatalogueCard key={model.id} model={model} onPull={() => void hold(model.id)} />
            ))}
          </ul>
        )}
      </Show>
      {catalog.state !== "loading" && <NotSetUp slots={[...slots.value.values()]} />}
    </>
  );
}

function Talk(): JSX.Element {
  const ready = [...slots.value.values()].find(
    (slot) => isAvailable(slot.state) && slot.capabilities.some((each) => each === "chat"),
  );
  const [curl] = linesFor(ready ?? { name: "primary", capabilities: ["chat"] }, new URL("v1", base).href);
  return (
    <>
      <p class="row">
        A slot is ready.
        <a
          class="button main"
          href={ready === undefined ? "chat/" : `chat/?model=${encodeURIComponent(ready.name)}`}
          target="_self"
        >
          Chat
        </a>
        <span class="quiet by-program">Or from a program:</span>
      </p>
      {curl !== undefined && (
        <div class="code by-program">
          <CopyButton text={curl.text} label={`Copy the lines for ${curl.name}`} />
          <pre>{curl.text}</pre>
        </div>
      )}
    </>
  );
}
