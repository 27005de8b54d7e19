import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { tokenScopes, type TokenScope } from "../../../src/api/scopes.ts";
import type { CreatedToken, TokenView } from "../../../src/api/token.ts";
import { base, call, list } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import { Drawer } from "../../shared/drawer.tsx";
import { time } from "../../shared/format.ts";
import { focusHeading } from "../focus.ts";
import { Action } from "../parts/action.tsx";
import { Show, useLoaded } from "../parts/load.tsx";

/** Tokens for programs and people: makes one, and revokes one. */
export function Tokens(): JSX.Element {
  const [me] = useLoaded(() => call("GET /api/auth/me"));
  const isOff = me.state === "here" && me.value.source === "none";
  const [tokens, again] = useLoaded(() => list("GET /api/auth/tokens"));
  const [isMaking, setMaking] = useState(false);
  return (
    <>
      <div class="chart-head">
        <h2>Tokens</h2>
        <button type="button" class="main" disabled={isOff} onClick={() => setMaking(true)}>
          New token
        </button>
      </div>
      {isMaking && <NewToken onCreated={again} onClose={() => setMaking(false)} />}
      {isOff && (
        <div class="banner care">
          Authentication is off: nobody needs a token here, and none is made by this page.{" "}
          <code>SVC_AUTH_ENABLED=1</code> switches it on; a token that <code>berth token create</code> makes before then
          has to be confirmed on this machine.
        </div>
      )}
      <Show of={tokens}>
        {(all) =>
          all.length === 0 ? (
            <p>No token yet. A program, or a person at another device, needs one where this Berth asks who they are.</p>
          ) : (
            <div class="wide">
              <table aria-label="Tokens">
                <thead>
                  <tr>
                    <th scope="col">Label</th>
                    <th scope="col">Scope</th>
                    <th scope="col">Created</th>
                    <th scope="col">Last used</th>
                    <th scope="col">
                      <span class="unseen">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {all.map((token) => (
                    <tr key={token.id}>
                      <td>{token.label}</td>
                      <td data-label="Scope">{token.scope}</td>
                      <td class="figure" data-label="Created">
                        {time(token.created_at)}
                      </td>
                      <td class="figure" data-label="Last used">
                        {token.last_used_at === null ? "never" : time(token.last_used_at)}
                      </td>
                      <td>
                        <Action
                          label={`Revoke ${token.label}`}
                          confirm={`Revoke the token of ${token.label}? Whoever uses it is refused at once. ${lossText(token)}`}
                          onClick={() => call("DELETE /api/auth/tokens/{id}", { params: { id: token.id } })}
                          onDone={() => {
                            focusHeading();
                            again();
                          }}
                        >
                          Revoke
                        </Action>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Show>
    </>
  );
}

const rights = {
  admin: "everything",
  all: "uses models, and reads these pages",
  "v1-only": "uses models alone",
  "read-only": "reads these pages alone",
} as const satisfies Record<TokenScope, string>;

/** What goes with a token for ever. The server leaves out a count that it does not know, as of several gateways. */
function lossText({ conversations }: TokenView): string {
  switch (conversations) {
    case undefined:
      return "The conversations of its holder in the chat are deleted with it.";
    case 0:
      return "Its holder has no conversations in the chat.";
    case 1:
      return "Its holder's one conversation in the chat is deleted with it.";
    default:
      return `Its holder's ${conversations} conversations in the chat are deleted with it.`;
  }
}

interface NewTokenProps {
  readonly onCreated: () => void;
  readonly onClose: () => void;
}

/** Makes a token, and shows it this once. */
function NewToken({ onCreated, onClose }: NewTokenProps): JSX.Element {
  const [label, setLabel] = useState("");
  const [scope, setScope] = useState<TokenScope>("v1-only");
  const [created, setCreated] = useState<CreatedToken>();
  const create = async (): Promise<void> => {
    const body = { label: label.trim(), scope };
    setCreated(await call("POST /api/auth/tokens", { body }));
    onCreated();
  };
  if (created !== undefined)
    return (
      <Drawer title="New token" isDialog isKept onClose={onClose}>
        <section aria-label="New token" aria-live="polite">
          <p>
            The token of <strong>{created.label}</strong>, shown this once: {created.warning}
          </p>
          <p class="row">
            <code class="secret">{created.token}</code>
            <CopyButton text={created.token} label="Copy the token" />
          </p>
          <p class="quiet">A client sends it as its API key. curl:</p>
          <pre>{`curl -H 'authorization: Bearer ${created.token}' ${new URL("v1/models", base).href}`}</pre>
          <button type="button" class="main" onClick={onClose}>
            I have it
          </button>
        </section>
      </Drawer>
    );
  return (
    <Drawer title="New token" isDialog onClose={onClose}>
      <form class="fields" onSubmit={(event) => event.preventDefault()}>
        <label>
          Label
          <input autofocus value={label} maxLength={100} onInput={(event) => setLabel(event.currentTarget.value)} />
        </label>
        <label>
          Scope
          <select
            value={scope}
            onChange={({ currentTarget }) =>
              setScope(tokenScopes.find((each) => each === currentTarget.value) ?? scope)
            }
          >
            {tokenScopes.map((each) => (
              <option key={each} value={each}>
                {`${each}: ${rights[each]}`}
              </option>
            ))}
          </select>
        </label>
        <Action isMain disabled={label.trim() === ""} onClick={create}>
          Create token
        </Action>
      </form>
    </Drawer>
  );
}
