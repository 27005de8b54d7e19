import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { needsToken, token, useToken } from "../shared/api.ts";
import { Boundary } from "../shared/boundary.tsx";
import { TokenDialog } from "../shared/token-dialog.tsx";
import { focusMessage } from "./focus.ts";
import { newConversation } from "./model.ts";
import { Composer } from "./parts/composer.tsx";
import { ConversationList } from "./parts/conversation-list.tsx";
import { Messages, Progress } from "./parts/messages.tsx";
import { Notices } from "./parts/notices.tsx";
import { ParameterForm } from "./parts/parameters.tsx";
import { attached, draft, forgetPage, keepPage, restorePage } from "./session.ts";
import { canChat, current, isAnswering, rereadConversations, lost, models, refresh, show, unkept } from "./store.ts";

/** The states of slots change; the picker shows them. */
const refreshEveryMs = 5000;

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  useEffect(() => {
    void refresh(true).then(restorePage);
    const timer = setInterval(() => {
      // Without a token the server would refuse again, and count it.
      if (!document.hidden && !needsToken.value) void refresh().then(restorePage);
    }, refreshEveryMs);
    return () => clearInterval(timer);
  }, [session]);
  useEffect(() => {
    const reread = (): void => void rereadConversations();
    addEventListener("beforeunload", warn);
    addEventListener("pagehide", keepPage);
    addEventListener("focus", reread);
    document.addEventListener("visibilitychange", reread);
    return () => {
      removeEventListener("beforeunload", warn);
      removeEventListener("pagehide", keepPage);
      removeEventListener("focus", reread);
      document.removeEventListener("visibilitychange", reread);
    };
  }, []);
  const { title, model } = current.value;
  useEffect(() => {
    document.title = `${title || "New chat"} · Berth chat`;
  }, [title]);
  return (
    <div class="chat">
      {needsToken.value && <TokenDialog onDone={() => setSession(session + 1)} />}
      <ConversationList />
      <main>
        <h1 class="unseen">{title || "New chat"}</h1>
        <div class="bar row">
          <Picker />
          <button
            type="button"
            onClick={() => {
              show(newConversation(model));
              focusMessage();
            }}
          >
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
            <a href="../ui" target="_self">
              Dashboard
            </a>
          </span>
        </div>
        <Notices />
        <Boundary key={current.value.id}>
          <Messages />
        </Boundary>
        <Progress />
        <Composer />
      </main>
    </div>
  );
}

/** The browser asks before it closes a page whose answer, or whose text, nobody has kept. */
function warn(event: BeforeUnloadEvent): void {
  const isLost = attached.value.length > 0 || (!keepPage() && draft.value !== "");
  if (isLost || isAnswering.value || unkept.value.length > 0) event.preventDefault();
}

/** What the page shows belongs to the token: it goes with it. */
function forgetToken(): void {
  useToken(undefined);
  forgetPage();
  location.reload();
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
