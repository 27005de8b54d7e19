import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { token, useToken } from "./api.ts";

/** What a header of a request can carry: with anything else no request would reach the server, and none would say why. */
const sendable = /^[\x21-\x7e]{1,512}$/;

export interface TokenFormProps {
  readonly onDone: () => void;
  /** The form is shown over a page, which has a main part of its own. */
  readonly isOver?: boolean;
}

/** Asks once for a token; it is kept as long as the tab. */
export function TokenForm({ onDone, isOver = false }: TokenFormProps): JSX.Element {
  const Box = isOver ? "div" : "main";
  const [text, setText] = useState("");
  const [isOther, setOther] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    setOther(!sendable.test(text.trim()));
    if (!sendable.test(text.trim())) return;
    useToken(text.trim());
    onDone();
  };
  return (
    <Box class="gate">
      <h1>Berth</h1>
      <p>
        This Berth wants to know who you are. Paste a token; an administrator makes one with{" "}
        <code>berth token create --label NAME --scope admin</code>. It is kept until you close this tab.
      </p>
      {isOther ? (
        <p role="alert">That is no token: a token has letters, digits and signs without spaces, such as svc_….</p>
      ) : (
        token.value !== undefined && <p role="alert">The server does not accept that token.</p>
      )}
      <form onSubmit={submit}>
        <label>
          Token
          <input
            type="password"
            autocomplete="off"
            required
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit">Use token</button>
      </form>
    </Box>
  );
}
