import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AnswerTo } from "../../../src/api/management/call.ts";
import { call, token, useToken } from "../../shared/api.ts";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { groupNames, groupOf, settingText } from "../setting-groups.ts";
import { About } from "./about.tsx";
import { Clients } from "./clients.tsx";
import { Tokens } from "./tokens.tsx";

type Config = AnswerTo<"GET /api/config">;

const parts = {
  general: ["General", General],
  tokens: ["Tokens", Tokens],
  clients: ["Clients", Clients],
  about: ["About", About],
} as const;

export function SettingsPage({ part = "general" }: { readonly part: string | undefined }): JSX.Element {
  const [name, Part] = Object.entries(parts).find(([each]) => each === part)?.[1] ?? parts.general;
  return (
    <>
      <PageHead title="Settings" context="How this Berth is set, who may use it, and how clients reach it." />
      <Tabs
        label="Parts of the settings"
        parts={Object.entries(parts).map(([each, [word]]) => ({ name: word, href: `ui/settings/${each}` }))}
        current={name}
      />
      <Part />
    </>
  );
}

function General(): JSX.Element {
  const [config] = useLoaded(() => call("GET /api/config"));
  const [me] = useLoaded(() => call("GET /api/auth/me"));
  return (
    <>
      <Show of={me}>
        {({ identity, scope, source }) => (
          <>
            {source === "none" ? (
              <div class="banner care">
                Authentication is off: everyone who reaches this address is an admin. <code>SVC_AUTH_ENABLED=1</code>{" "}
                switches it on.
              </div>
            ) : (
              <p>
                You are {identity}, with the scope {scope} (by {source}).
              </p>
            )}
            {token.value !== undefined && (
              <button type="button" onClick={forgetToken}>
                Forget the token
              </button>
            )}
          </>
        )}
      </Show>
      <Show of={config}>{(value) => <Settings config={value} />}</Show>
    </>
  );
}

function forgetToken(): void {
  useToken(undefined);
  // Streams that were opened with it end, and the page asks for another one.
  location.reload();
}

function Settings({ config }: { readonly config: Config }): JSX.Element {
  const [text, setText] = useState("");
  const [showsAll, setShowsAll] = useState(false);
  const all = Object.entries(config.settings);
  const found = all.filter(
    ([name, { origin, environment }]) =>
      (showsAll || text !== "" || origin !== "default") &&
      `${name} ${environment}`.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <>
      <p>
        Manifests are in <code>{config.config_dir}</code>
        {config.read_only && ", which Berth only reads: Git or the cluster owns it"}. These settings are changed there
        in <code>berth.toml</code>, or by the variable beside each.
      </p>
      <div class="row filters">
        <label>
          <span class="unseen">Search</span>
          <input
            type="search"
            placeholder="Search settings"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label>
          <input type="checkbox" checked={showsAll} onChange={(event) => setShowsAll(event.currentTarget.checked)} />{" "}
          Show defaults
        </label>
        <span role="status">
          {found.length} of {all.length}
        </span>
      </div>
      {found.length === 0 && (
        <p class="empty">{text === "" ? "Nothing differs from the defaults." : "No setting is called so."}</p>
      )}
      {groupNames.map((group) => {
        const some = found.filter(([name]) => groupOf(name) === group);
        return some.length === 0 ? null : (
          <section key={group} aria-label={group}>
            <h2>{group}</h2>
            <div class="wide">
              <table class="settings" aria-label={`Settings: ${group}`}>
                <thead class="unseen">
                  <tr>
                    <th scope="col">Setting</th>
                    <th scope="col">Value</th>
                    <th scope="col">From</th>
                    <th scope="col">Variable</th>
                  </tr>
                </thead>
                <tbody>
                  {some.map(([name, { value, origin, environment }]) => (
                    <tr key={name}>
                      <td>{name}</td>
                      <td data-label="Value" title={JSON.stringify(value)}>
                        {settingText(name, value)}
                      </td>
                      <td class="quiet" data-label="From">
                        {origin}
                      </td>
                      <td data-label="Variable">
                        <code>{environment}</code>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </section>
        );
      })}
    </>
  );
}
