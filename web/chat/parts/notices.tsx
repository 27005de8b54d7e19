import type { JSX } from "preact";
import { messageOf } from "../../shared/api.ts";
import { copied, current, failure, forget, keepAgain, keepNow, lost, shown, unkept, unread } from "../store.ts";

/** Tells that the server is out of reach, and which conversations it has not kept. */
export function Notices(): JSX.Element {
  return (
    <>
      <Failure />
      <Unkept />
      <Deleted />
      <Copied />
    </>
  );
}

function Failure(): JSX.Element {
  const texts = new Set([lost.value === "" ? unread.value : "", failure.value].filter((text) => text !== ""));
  return (
    <>
      {lost.value !== "" && (
        <div role="alert">
          {lost.value} This page asks again every few seconds.
          {unkept.value.length > 0 && " What was said meanwhile is kept once Berth answers: leave this page open."}
        </div>
      )}
      {[...texts].map((text) => (
        <div role="alert" key={text}>
          {text}
        </div>
      ))}
    </>
  );
}

/** What the server has refused to keep. While it is out of reach the page says so instead. */
function Unkept(): JSX.Element | null {
  const refused = unkept.value.filter(({ error, isDeleted = false }) => error !== undefined && !isDeleted);
  if (refused.length === 0 || lost.value !== "") return null;
  return (
    <div role="alert">
      {refused.map(({ conversation: { id, title }, error, isFinal = false }) => (
        <p key={id}>
          “{title}” is not kept: {messageOf(error).replace(/\.?$/, ".")}{" "}
          {isFinal ? "Then press “Keep it now”." : "This page tries again by itself: leave it open."}
        </p>
      ))}
      <button type="button" onClick={() => void keepNow()}>
        Keep it now
      </button>
    </div>
  );
}

/** Was deleted on another device, or in another window, while this page went on with it. */
function Deleted(): JSX.Element | null {
  const { id, title } = current.value;
  if (!unkept.value.some(({ conversation, isDeleted = false }) => isDeleted && conversation.id === id)) return null;
  return (
    <div role="alert">
      <p>“{title}” was deleted elsewhere meanwhile. What you have written here since then is on this page alone.</p>
      <div class="row">
        <button type="button" onClick={() => void keepAgain(id)}>
          Keep it after all
        </button>
        <button type="button" onClick={() => void shown(() => forget(id))}>
          Delete it here too
        </button>
      </div>
    </div>
  );
}

function Copied(): JSX.Element | null {
  const { id, title } = current.value;
  if (!copied.value.includes(id)) return null;
  return (
    <div role="alert">
      <p>
        This conversation was continued elsewhere meanwhile. What you have written here is kept as “{title}”; what was
        written elsewhere stays in the list beside it.
      </p>
      <button type="button" onClick={() => (copied.value = copied.value.filter((each) => each !== id))}>
        Close
      </button>
    </div>
  );
}
