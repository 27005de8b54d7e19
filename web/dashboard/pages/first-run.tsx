import type { JSX } from "preact";
import { call } from "../../shared/api.ts";
import { modelChanges, slots } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { useLoaded } from "../parts/load.tsx";

interface InstallState {
  readonly first_run: boolean;
  readonly has_models: boolean;
  readonly has_ready_slot: boolean;
}

/** What a new installation still lacks, in words, until a person ends it. */
export function FirstRun(): JSX.Element | null {
  const ready = [...slots.value.values()].some(({ state }) => ["ready", "serving", "idle"].includes(state));
  const [install, again] = useLoaded(() => call<InstallState>("/api/install/state"), [ready, modelChanges.value]);
  const known = install.state === "loading" ? undefined : install.value;
  if (known?.first_run !== true) return null;
  const { has_models: hasModels, has_ready_slot: hasReady } = known;
  const isHeld = [...slots.value.values()].some(({ model }) => model !== null);
  return (
    <section class="next" aria-label="First steps">
      <strong>Welcome.</strong>{" "}
      {!hasModels && (
        <>
          There is no model yet: <a href="ui/models">choose one</a> that fits this machine.
        </>
      )}
      {hasModels && !hasReady && !isHeld && (
        <>
          There is a model, and no slot holds it yet: open a slot below, such as <a href="ui/slots/primary">primary</a>,
          and set it up.
        </>
      )}
      {hasModels && !hasReady && isHeld && (
        <>There is a model; the slot that holds it is not ready yet. Its line below says why.</>
      )}
      {hasModels && hasReady && (
        <>
          A slot is ready: <a href="chat/">talk to it</a>.
        </>
      )}{" "}
      <Action onClick={() => call("/api/install/complete", { method: "POST" })} onDone={again}>
        Hide this
      </Action>
    </section>
  );
}
