import type { JSX } from "preact";
import type { configViewSchema } from "../../../src/api/management/views.ts";
import type { z } from "zod";
import { call, token, useToken } from "../../shared/api.ts";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Tokens } from "./tokens.tsx";

type Config = z.output<typeof configViewSchema>;
interface Me {
  readonly identity: string;
  readonly scope: string;
  readonly source: string;
}

function forgetToken(): void {
  useToken(undefined);
  // Streams that were opened with it end, and the page asks for another one.
  location.reload();
}

const parts = [
  { name: "General", href: "ui/settings" },
  { name: "Tokens", href: "ui/settings/tokens" },
];

export function SettingsPage({ part }: { readonly part: string | undefined }): JSX.Element {
  return (
    <>
      <PageHead title="Settings" />
      <Tabs label="Parts of the settings" parts={parts} current={part === "tokens" ? "Tokens" : "General"} />
      {part === "tokens" ? <Tokens /> : <General />}
    </>
  );
}

function General(): JSX.Element {
  const [config] = useLoaded(() => call<Config>("/api/config"));
  const [me] = useLoaded(() => call<Me>("/api/auth/me"));
  return (
    <>
      <Show of={me}>
        {({ identity, scope, source }) => (
          <p>
            You are {identity}, with the scope {scope}{" "}
            {source === "none" ? "(nobody is asked who they are here)" : `(by ${source})`}.{" "}
            {token.value !== undefined && (
              <button type="button" onClick={forgetToken}>
                Forget the token
              </button>
            )}
          </p>
        )}
      </Show>
      <Show of={config}>
        {({ config_dir: directory, read_only: isReadOnly, settings }) => (
          <>
            <p>
              Manifests are in <code>{directory}</code>
              {isReadOnly && ", which Berth only reads: Git or the cluster owns it"}. These settings are changed there
              in <code>berth.toml</code>, or by the variable beside each.
            </p>
            <div class="wide">
              <table aria-label="Settings">
                <thead>
                  <tr>
                    <th scope="col">Setting</th>
                    <th scope="col">Value</th>
                    <th scope="col">From</th>
                    <th scope="col">Variable</th>
                  </tr>
                </thead>
                <tbody>
                  {Object.entries(settings).map(([name, { value, origin, environment }]) => (
                    <tr key={name}>
                      <td>{name}</td>
                      <td>{typeof value === "string" ? value : JSON.stringify(value)}</td>
                      <td>{origin}</td>
                      <td>
                        <code>{environment}</code>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )}
      </Show>
    </>
  );
}
