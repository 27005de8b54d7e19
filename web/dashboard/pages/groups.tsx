import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { GroupView } from "../../../src/api/management/group-routes.ts";
import { call, list } from "../../shared/api.ts";
import { bytes, time } from "../../shared/format.ts";
import { groupChanges, slots } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { slotPath } from "../router.ts";

const hours = [0.5, 1, 2, 4, 8] as const;

/** Slots that share memory: who holds it, who waits, and lending it. */
export function Groups(): JSX.Element {
  // Members change state when their slots do.
  const states = [...slots.value.values()].map(({ name, state, held }) => `${name} ${state} ${held}`).join();
  const [groups, again] = useLoaded(() => list<GroupView>("/api/groups"), [states, groupChanges.value]);
  return (
    <>
      <h2>Groups</h2>
      <p class="quiet">Slots of one group share a budget: who holds it, and who waits for it.</p>
      <Show of={groups}>
        {(all) =>
          all.length === 0 ? (
            <p>
              No slot names a group. <code>group = "gpu"</code> in two manifests has them share the memory of their
              device.
            </p>
          ) : (
            <>
              {all.map((group) => (
                <Group key={group.name} group={group} onChange={again} />
              ))}
            </>
          )
        }
      </Show>
    </>
  );
}

function Group({ group, onChange }: { readonly group: GroupView; readonly onChange: () => void }): JSX.Element {
  return (
    <section aria-label={`Group ${group.name}`}>
      <h3>{group.name}</h3>
      {!group.declared && <p class="quiet">No file declares it: its slots share the memory of their devices.</p>}
      {group.problems.map(({ reason, message }) => (
        <p key={reason} role="alert">
          {message}
        </p>
      ))}
      <dl class="facts">
        {group.budget.map(({ resource, total, used }) => (
          <>
            <dt>{resource}</dt>
            <dd>
              <meter min={0} max={total} value={used} aria-label={`${resource} of ${group.name}`} />{" "}
              {amountText(resource, used)} of {amountText(resource, total)}
            </dd>
          </>
        ))}
      </dl>
      <div class="wide">
        <table aria-label={`Slots of ${group.name}`}>
          <thead>
            <tr>
              <th scope="col">Slot</th>
              <th scope="col">State</th>
              <th scope="col">Since</th>
              <th scope="col">Needs</th>
              <th scope="col">Waits because</th>
            </tr>
          </thead>
          <tbody>
            {group.members.map(({ slot, state, since, needs, message }) => (
              <tr key={slot}>
                <td>
                  <a href={slotPath(slot)}>{slot}</a>
                </td>
                <td data-label="State">{state}</td>
                <td class="figure" data-label="Since">
                  {time(since)}
                </td>
                <td data-label="Needs">
                  {needs.map(({ resource, amount }) => `${amountText(resource, amount)} ${resource}`).join(", ")}
                </td>
                <td>{message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Lend group={group} onChange={onChange} />
    </section>
  );
}

/** Gives what the group holds to others for a while. */
function Lend({ group, onChange }: { readonly group: GroupView; readonly onChange: () => void }): JSX.Element {
  const [length, setLength] = useState<number>(2);
  const at = `/api/groups/${encodeURIComponent(group.name)}/lend`;
  if (group.lent_until !== null) {
    return (
      <p class="row">
        <span class="busy">Lent until {time(group.lent_until)}: its slots load nothing.</span>
        <Action onClick={() => call(at, { method: "DELETE" })} onDone={onChange}>
          End the loan
        </Action>
      </p>
    );
  }
  return (
    <div class="row">
      <label>
        Lend for{" "}
        <select value={length} onChange={(event) => setLength(Number(event.currentTarget.value))}>
          {hours.map((each) => (
            <option key={each} value={each}>
              {each === 0.5 ? "30 minutes" : `${each} h`}
            </option>
          ))}
        </select>
      </label>
      <Action
        label={`Lend ${group.name}`}
        onClick={() => call(at, { method: "POST", body: { seconds: length * 3600 } })}
        onDone={onChange}
      >
        Lend
      </Action>
    </div>
  );
}

function amountText(resource: string, amount: number): string {
  return resource === "slots" ? String(amount) : bytes(amount);
}
