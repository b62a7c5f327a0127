# SPDX-License-Identifier: BSD-2-Clause
# The release tarball, and what is built of it: packages for Debian (debian/) and for Fedora and others
# (packaging/inc.spec). The version stands in hostlib/include/inccl.h.
DIST_NAME = inc-$(INCCL_VERSION)
DIST := $(abspath $(B))/packages
# A compiler's cache, where the machine has one. The make that builds a package is no part of this make.
PACKAGER = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL PATH="$(if $(wildcard /usr/lib/ccache),/usr/lib/ccache:)$(PATH)"
PACKAGE_JOBS = $(or $(JOBS),$(shell nproc))

.PHONY: dist deb rpm wheel
# Times are the commit's. A changed tree makes a tarball of what is changed as well. `git stash create` fails in a copied
# tree, because the index has other times of its files, so the index is refreshed first.
dist: ## the release tarball, build/packages/inc-VERSION.tar.gz (the same bits from the same commit)
	$(Q)mkdir -p $(DIST)
	$(Q)git update-index -q --refresh >/dev/null || :
	$(Q)ref=$$(git stash create) && git -c tar.umask=0022 archive --format=tar --prefix=$(DIST_NAME)/ $${ref:-HEAD} \
		>$(DIST)/$(DIST_NAME).tar
	$(Q)gzip -9nf $(DIST)/$(DIST_NAME).tar
	@printf '%s\n' $(DIST)/$(DIST_NAME).tar.gz

deb: ## Debian packages, build/packages/deb/*.deb
	$(Q)scripts/install-deps packages
	$(Q)$(MAKE) --no-print-directory dist
	$(Q)rm -rf $(DIST)/deb && mkdir -p $(DIST)/deb
	$(Q)tar -C $(DIST)/deb -xf $(DIST)/$(DIST_NAME).tar.gz
	$(Q)cd $(DIST)/deb/$(DIST_NAME) && $(PACKAGER) dpkg-buildpackage -us -uc -j$(PACKAGE_JOBS)
	$(Q)rm -rf $(DIST)/deb/$(DIST_NAME)
	@ls $(DIST)/deb/*.deb

# Debian's brp-compress has "#!/bin/sh" and needs bash, or it compresses no man page.
RPM_OF_DEBIAN := --nodeps -D '__brp_compress /bin/bash %{_rpmconfigdir}/brp-compress %{?_prefix}'
rpm: ## RPM packages, build/packages/rpm/RPMS/*/*.rpm (with Debian's rpmbuild as well)
	$(Q)scripts/install-deps packages
	$(Q)$(MAKE) --no-print-directory dist
	$(Q)rm -rf $(DIST)/rpm && mkdir -p $(DIST)/rpm
	$(Q)$(PACKAGER) RPM_BUILD_NCPUS=$(PACKAGE_JOBS) rpmbuild --quiet $(if $(wildcard /etc/debian_version),$(RPM_OF_DEBIAN)) \
		-D '_topdir $(DIST)/rpm' -ta $(DIST)/$(DIST_NAME).tar.gz
	@ls $(DIST)/rpm/RPMS/*/*.rpm

# The interpreter that has setuptools and wheel.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
wheel: ## the Python package, build/packages/wheel/*.whl (it loads libinccl.so.0 from where that is installed)
	$(Q)$(PYTHON) -c 'import setuptools, wheel' 2>/dev/null || scripts/install-deps packages
	$(Q)rm -rf $(DIST)/wheel && mkdir -p $(DIST)/wheel/source
	$(Q)$(call install_python,$(DIST)/wheel/source)
	$(Q)sed 's|@VERSION@|$(INCCL_VERSION)|' hostlib/python/pyproject.toml.in >$(DIST)/wheel/source/pyproject.toml
	$(Q)cp LICENSE docs/python.md $(DIST)/wheel/source/
	$(Q)cd $(DIST)/wheel/source && $(PYTHON) -c 'from setuptools import build_meta; build_meta.build_wheel("..")' >/dev/null
	$(Q)rm -rf $(DIST)/wheel/source
	@ls $(DIST)/wheel/*.whl
