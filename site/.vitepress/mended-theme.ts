import type { UserConfig } from "vitepress";

type Plugins = NonNullable<NonNullable<UserConfig["vite"]>["plugins"]>;

/** Changes to components of VitePress's theme, by file: each text is replaced, and a text that is gone ends the build. */
const changes: Readonly<Record<string, readonly (readonly [before: string, after: string])[]>> = {
  // The title of a section is no button: it does nothing, and the arrow beside it is one already.
  "VPSidebarItem.vue": [
    [':role="itemRole"', ""],
    [':tabindex="item.items && 0"', ""],
  ],
  // The keys are no part of the button's name; look.css writes this one.
  "VPNavBarSearchButton.vue": [
    ['<kbd class="DocSearch-Button-Key">K</kbd>', '<kbd class="DocSearch-Button-Key"></kbd>'],
  ],
  // Advertisements and icons from another host; the site has none, and without the addresses none can come.
  "VPCarbonAds.vue": [["//cdn.carbonads.com/carbon.js", "data:,"]],
  "VPSocialLink.vue": [["https://api.iconify.design/simple-icons/", "data:,"]],
};

/** The plugin that mends the theme where it would break what `test/site` asks of the site. */
export const mendedTheme: Plugins[number] = {
  name: "berth-mended-theme",
  enforce: "pre",
  transform(code, id) {
    const [, name = ""] = /\/theme-default\/components\/(\w+\.vue)$/.exec(id) ?? [];
    return changes[name]?.reduce((text, [before, after]) => {
      if (!text.includes(before)) throw new Error(`${name} of VitePress has no ${before}: see mended-theme.ts`);
      return text.replace(before, after);
    }, code);
  },
};
