import theme from "vitepress/theme-without-fonts";
import "../../../web/shared/tokens.css";
import "./look.css";

export default theme;
