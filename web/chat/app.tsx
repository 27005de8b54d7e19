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
import { canChat, current, failure, models, readConversations, readModels, shown } from "./store.ts";

/** The states of slots change; the picker shows them. */
const modelsEveryMs = 5000;

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  useEffect(() => {
    void shown(async () => {
      await readModels();
      await readConversations();
    });
    const timer = setInterval(() => {
      if (!document.hidden) void readModels().catch(() => undefined);
    }, modelsEveryMs);
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
        {failure.value !== "" && <div role="alert">{failure.value}</div>}
        <Boundary key={current.value.id}>
          <Messages />
        </Boundary>
        <Composer />
      </main>
    </div>
  );
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
            {berth.state === "" ? id : `${id} · ${berth.state}`}
          </option>
        ))}
      </select>
    </label>
  );
}
