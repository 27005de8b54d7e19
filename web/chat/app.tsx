import { LayoutDashboard, LogOut, PanelLeft, SquarePen } from "lucide";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { needsToken, token, useToken } from "../shared/api.ts";
import { Boundary } from "../shared/boundary.tsx";
import { Icon } from "../shared/icon.tsx";
import { Mark, showInTab } from "../shared/mark.tsx";
import { ThemeButton } from "../shared/theme.tsx";
import { Toasts } from "../shared/toast.tsx";
import { TokenDialog } from "../shared/token-dialog.tsx";
import { focusMessage } from "./focus.ts";
import { newConversation } from "./model.ts";
import { Composer } from "./parts/composer.tsx";
import { ConversationList } from "./parts/conversation-list.tsx";
import { Progress } from "./parts/held.tsx";
import { IconButton } from "./parts/icon-button.tsx";
import { Messages } from "./parts/messages.tsx";
import { Notices } from "./parts/notices.tsx";
import { ParameterButton } from "./parts/parameters.tsx";
import { Picker } from "./parts/picker.tsx";
import { attached, attachedTexts, draft, forgetPage, keepPage, restorePage } from "./session.ts";
import { current, isAnswering, isUnsettled, refresh, show, unkept } from "./store.ts";

const refreshEveryMs = 5000;

/** Reads what may have changed since. Without a token the server would refuse, and count it. */
async function reread(withConversations: boolean): Promise<void> {
  if (document.hidden || needsToken.value) return;
  await refresh(withConversations);
  await restorePage();
}

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  // On a narrow page the conversations lie over it, until one is chosen.
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    void refresh(true).then(restorePage);
    const timer = setInterval(() => isUnsettled() && void reread(false), refreshEveryMs);
    return () => clearInterval(timer);
  }, [session]);
  // An answer, or its end, says that a slot is in another state now.
  const isBusy = isAnswering.value;
  useEffect(() => void reread(false), [isBusy]);
  useEffect(() => {
    showInTab("#2457d6");
    // On a phone that would open its keyboard over the page.
    if (matchMedia("(hover: hover)").matches && document.activeElement === document.body) focusMessage();
    // Other devices and windows may have kept or deleted something.
    const look = (): void => void reread(true);
    addEventListener("beforeunload", warn);
    addEventListener("pagehide", keepPage);
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      removeEventListener("beforeunload", warn);
      removeEventListener("pagehide", keepPage);
      removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  const { id, title, messages } = current.value;
  useEffect(() => {
    document.title = `${title || "New chat"} · Berth chat`;
  }, [title]);
  useEffect(() => setOpen(false), [id]);
  return (
    <div class={`chat ${isOpen ? "shows-list" : ""} ${messages.length === 0 ? "is-new" : ""}`}>
      {needsToken.value && <TokenDialog onDone={() => setSession(session + 1)} />}
      <aside>
        <div class="brand">
          <Mark />
          <span>Berth</span>
        </div>
        <button type="button" onClick={beginChat}>
          <Icon of={SquarePen} />
          New chat
        </button>
        <ConversationList />
        <Foot />
      </aside>
      <button type="button" class="veil" aria-label="Close the conversations" onClick={() => setOpen(false)} />
      <main>
        <h1 class="unseen">{title || "New chat"}</h1>
        <div class="bar">
          <button
            type="button"
            class="ghost icon narrow"
            aria-label="Conversations"
            aria-expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
          >
            <Icon of={PanelLeft} />
          </button>
          <Picker />
          <ParameterButton />
          <button type="button" class="ghost icon narrow" aria-label="New chat" title="New chat" onClick={beginChat}>
            <Icon of={SquarePen} />
          </button>
        </div>
        <Notices />
        <Boundary key={id}>
          <Messages />
        </Boundary>
        <Progress />
        <Composer />
      </main>
      <Toasts />
    </div>
  );
}

function beginChat(): void {
  show(newConversation(current.value.model));
  focusMessage();
}

function Foot(): JSX.Element {
  return (
    <div class="foot">
      {/* Not `/`: on the chat's own port that is this page. */}
      <a class="button ghost" href="../ui" target="_self">
        <Icon of={LayoutDashboard} />
        Dashboard
      </a>
      {token.value !== undefined && <IconButton name="Forget the token" icon={LogOut} onClick={forgetToken} />}
      <ThemeButton />
    </div>
  );
}

/** The browser asks before it closes a page whose answer, or whose text, nobody has kept. */
function warn(event: BeforeUnloadEvent): void {
  const isLost = attached.value.length + attachedTexts.value.length > 0 || (!keepPage() && draft.value !== "");
  if (isLost || isAnswering.value || unkept.value.length > 0) event.preventDefault();
}

/** What the page shows belongs to the token: it goes with it. */
function forgetToken(): void {
  useToken(undefined);
  forgetPage();
  location.reload();
}
