import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RequestView } from "../../../src/api/management/request-routes.ts";
import { list } from "../../shared/api.ts";
import { shortTime } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { trafficChanges } from "../live.ts";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { RequestBars } from "../parts/request-bars.tsx";
import { RequestDrawer } from "../parts/request-drawer.tsx";
import { stretchWords, Waterfall } from "../parts/waterfall.tsx";
import { useQuery } from "../query.ts";
import { answererOf, isWanted, outcomeOf, outcomes, rateOf, timeOfDay } from "../request-words.ts";

/** Rows of the table: more are not looked through, and take long to draw. */
const shown = 200;

/** The last requests: how each ended, and where its time went. */
export function RequestsPage(): JSX.Element {
  const [frozen, setFrozen] = useState<readonly RequestView[]>();
  const isPaused = frozen !== undefined;
  const [requests] = useLoaded(
    () => list("GET /api/requests", { query: { limit: 500 } }),
    [isPaused ? undefined : trafficChanges.value],
  );
  const known = requests.state === "loading" ? undefined : requests.value;
  return (
    <>
      <PageHead title="Requests" context="The last requests that this gateway has answered, the newest first.">
        <button type="button" aria-pressed={isPaused} onClick={() => setFrozen(isPaused ? undefined : known)}>
          {isPaused ? "Follow" : "Pause"}
        </button>
      </PageHead>
      <Show of={isPaused ? { state: "here", value: frozen } : requests}>{(all) => <Requests known={all} />}</Show>
    </>
  );
}

function Requests({ known }: { readonly known: readonly RequestView[] }): JSX.Element {
  const [slot, setSlot] = useQuery("slot");
  const [outcome, setOutcome] = useQuery("outcome");
  const [route, setRoute] = useQuery("route");
  const [text, setText] = useQuery("text");
  const [open, setOpen] = useState<RequestView>();
  if (known.length === 0)
    return <p class="empty">No request yet. Chat with a slot, or copy a client's lines from its page.</p>;
  const found = known.filter((request) => isWanted(request, { slot, outcome, route, text }));
  // A bar means the same whichever rows are chosen.
  const slowest = Math.max(1, ...known.map(({ ms }) => ms));
  return (
    <>
      <div class="row filters choices">
        <Choice
          label="Slot"
          value={slot}
          values={known.map((request) => request.slot)}
          word={answererOf}
          onChange={setSlot}
        />
        <Choice
          label="Outcome"
          value={outcome}
          values={[...outcomes.keys()]}
          word={(each) => (each === "left" ? "client left" : each)}
          onChange={setOutcome}
        />
        <Choice label="Route" value={route} values={known.map((request) => request.route)} onChange={setRoute} />
        <label>
          <span class="unseen">Search</span>
          <input
            type="search"
            placeholder="Model, route, error, id"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <span role="status">
          {found.length} of {known.length}
          {found.length > shown && `, the last ${shown} are listed`}
        </span>
      </div>
      <RequestBars requests={found} />
      <ul class="legend time-key">
        {Object.entries(stretchWords).map(([name, words]) => (
          <li key={name} class="quiet">
            <span class={`swatch ${name}`} /> {words}
          </li>
        ))}
      </ul>
      <div class="wide">
        <table aria-label="Requests" class="requests">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Request</th>
              <th scope="col">Outcome</th>
              <th scope="col">Time</th>
              <th scope="col" class="figure">
                Tokens
              </th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, shown).map((request) => (
              <Row key={request.id} request={request} slowest={slowest} onOpen={() => setOpen(request)} />
            ))}
          </tbody>
        </table>
      </div>
      {open !== undefined && <RequestDrawer request={open} onClose={() => setOpen(undefined)} />}
    </>
  );
}

interface RowProps {
  readonly request: RequestView;
  readonly slowest: number;
  readonly onOpen: () => void;
}

function Row({ request, slowest, onOpen }: RowProps): JSX.Element {
  const { tone, text } = outcomeOf(request);
  const { tokens_in: tokensIn, tokens_out: tokensOut } = request;
  const rate = rateOf(request);
  return (
    <tr>
      <td>
        <time class="number" dateTime={request.ended_at} title={new Date(request.ended_at).toLocaleString()}>
          {timeOfDay(request.ended_at)}
        </time>
      </td>
      <td>
        <button type="button" class="link" onClick={onOpen}>
          {request.model === "" ? request.route : request.model}
        </button>
        {request.slot !== request.model && <span class="quiet"> → {answererOf(request.slot)}</span>}
        <div class="quiet route">{request.route}</div>
      </td>
      <td>
        <Pill tone={tone}>{text}</Pill>
      </td>
      <td>
        <Waterfall request={request} slowest={slowest} />
        <span class="quiet number">{shortTime(request.ms)}</span>
      </td>
      <td class="figure">
        {tokensIn === null && tokensOut === null ? (
          "–"
        ) : (
          <span class="tokens">
            {[tokensIn !== null && `${tokensIn} in`, tokensOut !== null && `${tokensOut} out`]
              .filter(Boolean)
              .join(" → ")}
          </span>
        )}
        {rate !== undefined && <div class="quiet">{rate.toFixed(1)} tok/s</div>}
      </td>
    </tr>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly word?: (value: string) => string;
  readonly onChange: (value: string) => void;
}

function Choice({ label, value, values, word, onChange }: ChoiceProps): JSX.Element {
  // An address may name something that none of these requests has.
  const all = new Set([...values, ...(value === "" ? [] : [value])]);
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {[...all].toSorted().map((each) => (
          <option key={each} value={each}>
            {word?.(each) ?? each}
          </option>
        ))}
      </select>
    </label>
  );
}
