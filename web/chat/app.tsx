import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { needsToken, token, useToken } from "../shared/api.ts";
import { Boundary } from "../shared/boundary.tsx";
import { newConversation } from "./model.ts";
import { Composer } from "./parts/composer.tsx";
import { ConversationList } from "./parts/conversation-list.tsx";
import { Messages } from "./parts/messages.tsx";
import { ParameterForm } from "./parts/parameters.tsx";
import { TokenDialog } from "./parts/token-dialog.tsx";
import { canChat, current, failure, lost, models, refresh, unkept } from "./store.ts";

/** The states of slots change; the picker shows them. */
const refreshEveryMs = 5000;

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  useEffect(() => {
    void refresh(true);
    const timer = setInterval(() => {
      // Without a token the server would refuse again, and count it.
      if (!document.hidden && !needsToken.value) void refresh();
    }, refreshEveryMs);
    return () => clearInterval(timer);
  }, [session]);
  return (
    <div class="chat">
      {needsToken.value && <TokenDialog onDone={() => setSession(session + 1)} />}
      <ConversationList />
      <main>
        <div class="bar row">
          <Picker />
          <button type="button" onClick={() => (current.value = newConversation(current.value.model))}>
            New chat
          </button>
          <ParameterForm />
          <span class="row end">
            {token.value !== undefined && (
              <button type="button" onClick={forgetToken}>
                Forget the token
              </button>
            )}
            {/* Not `/`: on the chat's own port that is this page. */}
            <a href="/ui/slots" target="_self">
              Dashboard
            </a>
          </span>
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

/** What the page shows belongs to the token: it goes with it. */
function forgetToken(): void {
  useToken(undefined);
  location.reload();
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
