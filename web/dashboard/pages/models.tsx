import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PullView } from "../../../src/api/management/pull-views.ts";
import type { CatalogView, ModelView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { bytes, duration, percent } from "../../shared/format.ts";
import { focusHeading } from "../focus.ts";
import { pulls } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { benchmarkText } from "../parts/benchmark.ts";
import { capabilityWords } from "../parts/capability-words.ts";
import { Catalogue } from "../parts/catalogue.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { PullButton } from "../parts/pull-button.tsx";
import { slotPath } from "../router.ts";

/** Milliseconds between two readings: a model comes and leaves a moment after the event, or the answer, that says so. */
const restMs = 3000;

export function ModelsPage(): JSX.Element {
  const ended = [...pulls.value.values()].filter(({ state }) => state === "completed").length;
  const [models, again] = useLoaded(() => list<ModelView>("/api/models"), [ended], restMs);
  const [catalog] = useLoaded(() => list<CatalogView>("/api/models/catalog"), [ended], 3 * restMs);
  return (
    <>
      <PageHead title="Models" context="What is on this machine, and what fits it." />
      <Pulls />
      <h2>On this machine</h2>
      <Show of={models}>{(all) => <Models all={all} onChange={again} />}</Show>
      <h2>Fetch another one</h2>
      <PullForm />
      <h2>Catalogue</h2>
      <Show of={catalog}>{(all) => <Catalogue all={all} />}</Show>
    </>
  );
}

function Pulls(): JSX.Element | null {
  const all = [...pulls.value.values()];
  if (all.length === 0) return null;
  return (
    <>
      <h2>Pulls</h2>
      <div class="wide">
        <table aria-label="Pulls">
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">State</th>
              <th scope="col">Progress</th>
              <th scope="col">Left</th>
              <th scope="col">
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((pull) => (
              <PullRow key={pull.id} pull={pull} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function PullRow({ pull }: { readonly pull: PullView }): JSX.Element {
  const at = `/api/pulls/${pull.id}`;
  const isOpen = pull.state === "queued" || pull.state === "running";
  const rate = pull.bytes_per_second === null ? "" : `, ${bytes(pull.bytes_per_second)}/s`;
  return (
    <tr>
      <td>{pull.model}</td>
      <td>
        {pull.state}
        {pull.error !== null && <div role="alert">{pull.error.message}</div>}
      </td>
      <td>
        <progress
          aria-label={`Progress of ${pull.model}`}
          value={pull.bytes_done}
          max={Math.max(1, pull.bytes_total ?? pull.bytes_done)}
        />{" "}
        {percent(pull.bytes_done, pull.bytes_total) ?? ""} {bytes(pull.bytes_done)} of {bytes(pull.bytes_total)}
        {isOpen && rate}
      </td>
      <td class="figure">{isOpen ? duration(pull.eta_seconds) : ""}</td>
      <td>
        <div class="row">
          {isOpen && (
            <Action label={`Pause ${pull.model}`} onClick={() => call(`${at}/pause`, { method: "POST" })}>
              Pause
            </Action>
          )}
          {(pull.state === "paused" || pull.state === "failed") && (
            <Action label={`Resume ${pull.model}`} onClick={() => call(`${at}/resume`, { method: "POST" })}>
              Resume
            </Action>
          )}
          {(isOpen || pull.state === "paused") && !pull.for_slot && (
            <Action label={`Cancel ${pull.model}`} onClick={() => call(at, { method: "DELETE" })}>
              Cancel
            </Action>
          )}
        </div>
      </td>
    </tr>
  );
}

function Models({ all, onChange }: { readonly all: readonly ModelView[]; readonly onChange: () => void }): JSX.Element {
  if (all.length === 0) return <p>There is none yet. Fetch one below; the first column says what fits this machine.</p>;
  return (
    <div class="wide">
      <table aria-label="Models on this machine">
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">State</th>
            <th scope="col">Size</th>
            <th scope="col">Can</th>
            <th scope="col">Slots</th>
            <th scope="col">Licence</th>
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.slice(0, 200).map((model) => (
            <tr key={model.id}>
              <td>{model.id}</td>
              <td>
                {model.state}
                {model.message !== null && <div class="quiet">{model.message}</div>}
                {model.last_benchmark && <div class="quiet">{benchmarkText(model.last_benchmark)}</div>}
              </td>
              <td class="figure">{bytes(model.size_bytes)}</td>
              <td>{capabilityWords(model.capabilities)}</td>
              <td>
                {model.slots.map((slot) => (
                  <a key={slot} href={slotPath(slot)}>
                    {slot}{" "}
                  </a>
                ))}
              </td>
              <td>{model.license ?? "–"}</td>
              <td>
                {model.state === "missing" && (
                  <PullButton label={`Pull ${model.id}`} of={model.id} body={{ model: model.id }} onDone={onChange} />
                )}
                <Action
                  label={`Remove ${model.id}`}
                  confirm={`Remove ${model.id} and its files?`}
                  disabled={model.slots.length > 0}
                  onClick={() => call(`/api/models/${encodeURIComponent(model.id)}?files=1`, { method: "DELETE" })}
                  onDone={() => {
                    focusHeading();
                    onChange();
                  }}
                >
                  Remove
                </Action>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {all.length > 200 && (
        <p class="quiet">
          and {all.length - 200} more: <code>berth model list</code>
        </p>
      )}
    </div>
  );
}

function PullForm(): JSX.Element {
  const [source, setSource] = useState("");
  return (
    <form class="row" onSubmit={(event) => event.preventDefault()}>
      <label>
        Address{" "}
        <input
          placeholder="hf://owner/repository/file.gguf or https://…"
          value={source}
          onInput={(event) => setSource(event.currentTarget.value)}
        />
      </label>
      <PullButton
        key={source}
        isMain
        of={source.trim().split("/").at(-1) ?? ""}
        disabled={source.trim() === ""}
        body={{ source: source.trim() }}
        onDone={() => setSource("")}
      />
    </form>
  );
}
