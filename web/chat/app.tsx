import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { needsToken } from "../shared/api.ts";
import { Boundary } from "../shared/boundary.tsx";
import { TokenForm } from "../shared/token-form.tsx";
import { newConversation } from "./model.ts";
import { Composer } from "./parts/composer.tsx";
import { ConversationList } from "./parts/conversation-list.tsx";
import { Messages } from "./parts/messages.tsx";
import { ParameterForm } from "./parts/parameters.tsx";
import { canChat, current, failure, lost, models, refresh, unkept } from "./store.ts";

/** The states of slots change; the picker shows them. */
const refreshEveryMs = 5000;

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  useEffect(() => {
    void refresh(true);
    const timer = setInterval(() => {
      if (!document.hidden) void refresh();
    }, refreshEveryMs);
    return () => clearInterval(timer);
  }, [session]);
  if (needsToken.value) return <TokenForm onDone={() => setSession(session + 1)} />;
  return (
    <div class="chat">
      <ConversationList />
      <main>
        <div class="bar row">
          <Picker />
          <button type="button" onClick={() => (current.value = newConversation(current.value.model))}>
            New chat
          </button>
          <ParameterForm />
          <a href="/" target="_self">
            Dashboard
          </a>
        </div>
        <Failure />
        <Boundary key={current.value.id}>
          <Messages />
        </Boundary>
        <Composer />
      </main>
    </div>
  );
}

function Failure(): JSX.Element | null {
  if (lost.value !== "")
    return (
      <div role="alert">
        {lost.value} This page asks again every few seconds.
        {unkept.value.size > 0 && " What was said meanwhile is kept once Berth answers: leave this page open."}
      </div>
    );
  return failure.value === "" ? null : <div role="alert">{failure.value}</div>;
}

function Picker(): JSX.Element {
  const known = models.value.filter(canChat);
  const { model } = current.value;
  return (
    <label>
      Model{" "}
      <select
        aria-label="Model"
        value={model}
        onChange={(event) => (current.value = { ...current.value, model: event.currentTarget.value })}
      >
        {!known.some(({ id }) => id === model) && <option value={model}>{model === "" ? "none yet" : model}</option>}
        {known.map(({ id, berth }) => (
          <option key={id} value={id}>
            {berth.state === "" || lost.value !== "" ? id : `${id} · ${berth.state}`}
          </option>
        ))}
      </select>
    </label>
  );
}
