import type { JSX } from "preact";
import { base } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import type { Example } from "./example.ts";
import { snippetsOf } from "./snippets.ts";

/** The same request for programs, ready to be pasted. */
export function Code({ example }: { readonly example: Example }): JSX.Element {
  return (
    <section aria-label="The same from a program">
      <h2>The same from a program</h2>
      <p class="quiet">
        Each reads the token from the environment: <code>export BERTH_TOKEN=svc_…</code> first, where authentication is
        on. The page <a href="ui/settings/tokens">Tokens</a> makes one; its scope <code>v1-only</code> is enough for{" "}
        <code>/v1</code>.
      </p>
      {snippetsOf(example, base.href.replace(/\/$/, "")).map(({ language, needs, text }) => (
        <details key={language} open={language === "curl"}>
          <summary>{language}</summary>
          <p class="row">
            <span class="quiet">Needs: {needs}</span>
            <CopyButton text={text} label={`Copy ${language}`} />
          </p>
          <pre aria-label={`${language} snippet`} tabIndex={0}>
            {text}
          </pre>
        </details>
      ))}
    </section>
  );
}
