import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { token, useToken } from "./api.ts";

/** Asks once for a token; it is kept as long as the tab. */
export function TokenForm({ onDone }: { readonly onDone: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    useToken(text.trim());
    onDone();
  };
  return (
    <main class="gate">
      <h1>Berth</h1>
      <p>
        This Berth wants to know who you are. Paste a token; an administrator makes one with{" "}
        <code>berth token create --label NAME --scope admin</code>. It is kept until you close this tab.
      </p>
      {token.value !== undefined && <p role="alert">The server does not accept that token.</p>}
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
    </main>
  );
}
