# What the packages in Python have in common: include this after project(), and call ament_package() at the end.
find_package(ament_cmake REQUIRED)
find_package(ament_cmake_python REQUIRED)

# Absolute, since paths are relative to the file of the call, which is this one.
ament_python_install_package(${PROJECT_NAME}
  PACKAGE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/${PROJECT_NAME}
  SETUP_CFG ${CMAKE_CURRENT_SOURCE_DIR}/setup.cfg
  SCRIPTS_DESTINATION lib/${PROJECT_NAME})

if(BUILD_TESTING)
  find_package(ament_cmake_pytest REQUIRED)
  # From the root of the repository, which has the settings of pytest and the modules that all tests share.
  ament_add_pytest_test(test_${PROJECT_NAME} test TIMEOUT 3600 WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/..)
endif()
