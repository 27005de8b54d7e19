import { signal } from "@preact/signals";
import { needsToken, storage } from "../shared/api.ts";
import { oneAtATime } from "../shared/one-at-a-time.ts";
import { noParameters, type Parameters, type TextFile } from "./model.ts";
import { choose, current, isGone, isUntouched, lost, openAgain, withChoices } from "./store.ts";

const storageKey = "berth-chat-page";

/** What a reload would lose, and no server has; kept as long as the tab. */
interface PageState {
  readonly draft: string;
  /** The conversation that is open; absent: a new one. */
  readonly id?: string;
  readonly model: string;
  readonly parameters: Parameters;
}

/** What stands in the box for the next message. */
export const draft = signal("");
/** Pictures for the next message, as `data:` addresses: too large to be kept in the tab. */
export const attached = signal<readonly string[]>([]);

/** Texts for the next message. */
export const attachedTexts = signal<readonly TextFile[]>([]);

const kept = readState();
let before = isLinked() ? undefined : kept;
let isForgotten = false;

/** Brings back what stood on the page before it was loaded anew; where the server is not reached, the next call does. */
export const restorePage = oneAtATime(async () => {
  if (needsToken.value || lost.value !== "") return;
  if (before === undefined || !isUntouched()) return;
  const { id, model, parameters } = before;
  try {
    if (id !== undefined) await openAgain(id);
  } catch (error) {
    // A conversation that was deleted meanwhile does not come back.
    if (isGone(error)) before = undefined;
    return;
  }
  before = undefined;
  if (!isUntouched()) return;
  current.value = withChoices({ ...current.value, parameters, model: model || current.value.model });
});

/** Keeps what stands on the page for the next load of it. False: the browser keeps nothing for this site, or not so much. */
export function keepPage(): boolean {
  if (isForgotten) return true;
  try {
    storage()?.setItem(storageKey, JSON.stringify({ ...presentState(), draft: draft.value }));
    return storage() !== undefined;
  } catch {
    storage()?.removeItem(storageKey);
    return false;
  }
}

function presentState(): PageState {
  // What stood here has not come back yet.
  if (before !== undefined && isUntouched()) return withChoices(before);
  const { id, model, parameters, messages } = current.value;
  return { draft: "", ...(messages.length === 0 ? {} : { id }), model, parameters };
}

/** For the next person at this tab. */
export function forgetPage(): void {
  isForgotten = true;
  storage()?.removeItem(storageKey);
}

/** A link that names a model begins a new conversation with it, offered or not yet; a reload then finds that one. */
function isLinked(): boolean {
  const model = new URLSearchParams(location.search).get("model");
  if (model === null) return false;
  choose({ model });
  history.replaceState(history.state, "", location.pathname);
  return true;
}

function readState(): PageState | undefined {
  try {
    const kept: Partial<PageState> = JSON.parse(storage()?.getItem(storageKey) ?? "");
    const { draft: text = "", model = "", parameters = noParameters } = kept;
    draft.value = text;
    return { ...kept, draft: text, model, parameters };
  } catch {
    return undefined;
  }
}
