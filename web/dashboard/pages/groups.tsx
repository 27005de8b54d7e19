import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { GroupView } from "../../../src/api/management/group-routes.ts";
import type { Tone } from "../../../src/api/state-words.ts";
import { call } from "../../shared/api.ts";
import { now } from "../../shared/clock.ts";
import { bytes, time } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { When } from "../../shared/when.tsx";
import { connection, groups } from "../live.ts";
import { loanLeft } from "../loan-text.ts";
import { Action } from "../parts/action.tsx";
import { Bar } from "../parts/bar.tsx";
import { slotPath } from "../router.ts";

type Member = GroupView["members"][number];

const hours = [0.5, 1, 2, 4, 8] as const;

/** Slots that share memory: who holds it, who waits, and lending it. */
export function Groups(): JSX.Element {
  const all = [...groups.value.values()];
  return (
    <>
      <h2>Groups</h2>
      <p class="quiet">
        Slots of one group share a budget. A group that is lent loads nothing until the loan ends: its memory is free
        for other programs.
      </p>
      {all.length === 0 && connection.value === "live" && (
        <p>
          No slot names a group. <code>group = "gpu"</code> in two manifests has them share the memory of their device.
        </p>
      )}
      <div class="stack">
        {all.map((group) => (
          <Group key={group.name} group={group} />
        ))}
      </div>
    </>
  );
}

const memberWords = {
  loaded: ["good", "Loaded"],
  loading: ["busy", "Loading"],
  leaving: ["busy", "Leaving"],
  waiting: ["busy", "Waiting"],
  unloaded: ["off", "Not loaded"],
} as const satisfies Record<Member["state"], readonly [Tone, string]>;

function Group({ group }: { readonly group: GroupView }): JSX.Element {
  return (
    <section class="card" aria-label={`Group ${group.name}`}>
      <div class="chart-head">
        <h3>{group.name}</h3>
        <Lend group={group} />
      </div>
      {!group.declared && <p class="quiet">No file declares it: its slots share the memory of their devices.</p>}
      {group.problems.map(({ reason, message }) => (
        <p key={reason} role="alert">
          {message}
        </p>
      ))}
      {group.budget.map(({ resource, total, used }) => (
        <div key={resource} class="fit">
          <span>
            {resource}{" "}
            <span class="quiet number">
              {amountText(resource, used)} of {amountText(resource, total)}
            </span>
          </span>
          <Bar share={used / Math.max(1, total)} tone={used > total ? "bad" : "good"} />
        </div>
      ))}
      <ul class="events" aria-label={`Slots of ${group.name}`}>
        {group.members.map((member) => (
          <MemberLine key={member.slot} member={member} />
        ))}
      </ul>
    </section>
  );
}

/** Whether a slot holds its share, and why it waits. */
function MemberLine({ member }: { readonly member: Member }): JSX.Element {
  const { slot, state, since, needs, message } = member;
  // A newer server may know other states: its own word then.
  const [tone, word] = Object.hasOwn(memberWords, state) ? memberWords[state] : (["off", state] as const);
  const amounts = needs.filter(({ amount }) => amount > 0);
  return (
    <li>
      <Pill tone={tone}>{word}</Pill>
      <span>
        <a href={slotPath(slot)}>{slot}</a>
        {amounts.length > 0 && (
          <span class="quiet number">
            {" "}
            needs {amounts.map(({ resource, amount }) => `${amountText(resource, amount)} ${resource}`).join(", ")}
          </span>
        )}
        {message !== null && <div>{message}</div>}
      </span>
      <span class="quiet">
        <When at={since} />
      </span>
    </li>
  );
}

/** Gives what the group holds to others for a while. */
function Lend({ group }: { readonly group: GroupView }): JSX.Element {
  const [length, setLength] = useState<number>(2);
  const params = { name: group.name };
  if (group.lent_until !== null) {
    return (
      <p class="row">
        <Pill tone="lent">Lent until {time(group.lent_until)}</Pill>
        <Countdown until={group.lent_until} />
        <Action onClick={() => call("DELETE /api/groups/{name}/lend", { params })}>End the loan</Action>
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
      <span class="quiet number">until {clockTime(now() + length * 3_600_000)}</span>
      <Action
        label={`Lend ${group.name}`}
        onClick={() => call("POST /api/groups/{name}/lend", { params, body: { seconds: length * 3600 } })}
      >
        Lend
      </Action>
    </div>
  );
}

/** How long a loan goes on, by the second. */
function Countdown({ until }: { readonly until: string }): JSX.Element {
  const [at, setAt] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setAt(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span class="number">{loanLeft(until, at)}</span>;
}

function clockTime(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function amountText(resource: string, amount: number): string {
  return resource === "slots" ? String(amount) : bytes(amount);
}
