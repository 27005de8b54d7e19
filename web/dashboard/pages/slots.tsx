import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SlotView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { connection, lostBecause, slots } from "../live.ts";
import { memoryOf } from "../memory.ts";
import { Action } from "../parts/action.tsx";
import { Figures } from "../parts/figures.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { firstConcern, State } from "../parts/state.tsx";
import { Spark } from "../parts/spark.tsx";
import { slotPath } from "../router.ts";
import { useTraffic } from "../use-traffic.ts";
import { FirstRun } from "./first-run.tsx";

/** Rows that are drawn at once; more of them make a page slow that nobody reads to its end. */
const pageRows = 100;

export function SlotsPage(): JSX.Element {
  const [search, setSearch] = useState("");
  const [shown, setShown] = useState(pageRows);
  const traffic = useTraffic();
  const all = [...slots.value.values()];
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = all.filter((slot) =>
    words.every((word) => `${slot.name} ${slot.state} ${slot.model ?? ""} ${slot.engine}`.toLowerCase().includes(word)),
  );
  return (
    <>
      <PageHead title="Overview" />
      <FirstRun />
      {all.length > 0 && <Figures traffic={traffic} />}
      {all.length > 10 && (
        <p>
          <label>
            Search <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          </label>{" "}
          <span role="status">
            {found.length} of {all.length}
          </span>
        </p>
      )}
      {all.length === 0 && <NoSlots />}
      {all.length > 0 && (
        <div class="wide">
          <table aria-label="Slots">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">State</th>
                <th scope="col">Model</th>
                <th scope="col">Requests</th>
                <th scope="col">tok/s</th>
                <th scope="col">Memory</th>
                <th scope="col">Says</th>
                <th scope="col">
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, shown).map((slot) => (
                <Row key={slot.name} slot={slot} rates={traffic.rates.get(slot.name)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.length > shown && (
        <p>
          <button type="button" onClick={() => setShown(shown + pageRows)}>
            Show {Math.min(pageRows, found.length - shown)} more
          </button>
        </p>
      )}
    </>
  );
}

function NoSlots(): JSX.Element {
  switch (connection.value) {
    case "live":
      return (
        <p role="status">
          No slot is declared. <code>berth slot create --help</code> shows how one is made.
        </p>
      );
    case "refused":
      return <p role="alert">{lostBecause.value}</p>;
    case "lost":
      return <p role="status">The slots are shown once Berth answers.</p>;
    case "connecting":
      return <p role="status">Loading …</p>;
    default:
      return connection.value satisfies never;
  }
}

function Row({ slot, rates }: { readonly slot: SlotView; readonly rates: readonly number[] | undefined }): JSX.Element {
  const concern = firstConcern(slot.conditions);
  const waiting = slot.queued + slot.held;
  const isConfigured = slot.generation > 0 || slot.file !== null;
  return (
    <tr>
      <td>
        <a href={slotPath(slot.name)}>{slot.name}</a>
      </td>
      <td>
        <State slot={slot} />
      </td>
      <td>{slot.model ?? "–"}</td>
      <td class="figure">
        {slot.in_flight}
        {waiting > 0 && <span class="busy"> + {waiting} waiting</span>}
      </td>
      <td class="figure">
        {rates === undefined ? (
          "–"
        ) : (
          <Spark values={rates} label={`tokens a second: ${(rates.at(-1) ?? 0).toFixed(0)}`} />
        )}
      </td>
      <td class="figure">{bytes(memoryOf(slot))}</td>
      <td>{concern?.message ?? ""}</td>
      <td>{isConfigured && slot.enabled && <LoadButton slot={slot} />}</td>
    </tr>
  );
}

function LoadButton({ slot }: { readonly slot: SlotView }): JSX.Element {
  const isLoaded = slot.processes.length > 0;
  const act = isLoaded ? "unload" : "load";
  const word = isLoaded ? "Unload" : "Load";
  return (
    <Action
      label={`${word} ${slot.name}`}
      onClick={() => call(`/api/slots/${encodeURIComponent(slot.name)}/${act}`, { method: "POST" })}
    >
      {word}
    </Action>
  );
}
